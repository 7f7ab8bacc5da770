"""Hardware counters that are known and left out on purpose.

Sizes of tables, high-water marks, registers and administration of the driver: they say nothing
about the fabric. A name that is neither in the catalogue nor here is reported as a gap.
"""

from typing import Final

IGNORED: Final = frozenset({
    "lifespan", "active_pds", "active_ahs", "active_rc_qps", "active_ud_qps", "active_srqs",
    "active_mws", "watermark_pds", "watermark_ahs", "watermark_qps", "watermark_rc_qps",
    "watermark_ud_qps", "watermark_srqs", "watermark_cqs", "watermark_mrs", "watermark_mws",
    "resize_cq_count", "db_fifo_register", "pacing_reschedule", "pacing_complete",
    "res_exceed_max", "res_exceeds_wqe", "res_rx_invalid_rkey", "res_rx_domain_err",
    "res_rx_range_err", "res_tx_invalid_rkey", "res_tx_domain_err", "res_tx_no_perm",
    "res_tx_range_err", "res_rem_inv_err", "res_mem_err", "res_invalid_dup_rkey",
    "res_wqe_format_err", "res_cq_load_err", "res_srq_load_err", "completed_cmds",
    "keep_alive_rcvd", "alloc_pd_err", "create_qp_err", "create_cq_err", "reg_mr_err",
    "alloc_ucontext_err", "create_ah_err", "mmap_err", "trp_get_mpt_err_pkt",
    "trp_get_irrl_err_pkt", "ecn_doorbell", "rx_buffer", "trp_rx_sof", "cq_cqe", "cq_poe",
    "cq_notify", "rx_uc_pkt", "tx_uc_pkt", "rx_xrc_pkt", "tx_xrc_pkt", "tx_reqs_cnt",
    "rx_reqs_cnt", "tx_rdma_mcast_bytes", "rx_rdma_mcast_bytes", "req_tx_loc_sgl_inv_err",
    "resp_tx_pkt_seq_err", "resp_tx_rmt_inval_req_err", "resp_tx_rmt_oper_err",
    "resp_rx_s0_table_err", "iwRdmaBnd", "iwRdmaInv", "rxVlanErrors", "tcpInOptErrors",
    "tcpInProtoErrors", "tcpInSegs", "tcpOutSegs", "ip4InTruncatedPkts", "ip4InPkts",
    "ip4InReasmRqd", "ip4InMcastPkts", "ip4InMcastOctets", "ip4OutNoRoutes", "ip4OutPkts",
    "ip4OutSegRqd", "ip4OutMcastPkts", "ip4OutMcastOctets", "ip6InTruncatedPkts", "ip6InPkts",
    "ip6InReasmRqd", "ip6InMcastPkts", "ip6InMcastOctets", "ip6OutNoRoutes", "ip6OutPkts",
    "ip6OutSegRqd", "ip6OutMcastPkts", "ip6OutMcastOctets", "sq_num_lle", "sq_num_wrfe",
    "sq_num_bre", "sq_num_rire", "sq_num_rae", "sq_num_rnr_nak", "rq_num_lle", "rq_num_lpe",
    "rq_num_wrfe", "rq_num_mwbe", "rq_num_rae", "rq_num_udsdprd",
})  # fmt: skip
