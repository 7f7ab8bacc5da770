"""What RDMA work requests failed of: errors in completions and device, receivers not ready.

Names and widths: the drivers' tables in Linux (hw/mlx5, mlx4, bnxt_re), ionic's own firmware.
"""

from typing import Final

from collectors.model.catalogue.rdma_sources import hw
from collectors.model.metric import Metric, counter

# --- completions in error ------------------------------------------------------------------------
REQ_CQE_ERRORS = counter(
    "node_infiniband_req_cqes_errors_total",
    "events",
    "Completions in error at the requester.",
    hw("req_cqe_error", "mlx5", 32),
    hw("req_rx_cqe_err", "ionic"),
)
REQ_CQE_FLUSH = counter(
    "node_infiniband_req_cqes_flush_errors_total",
    "events",
    "Completions flushed in error at the requester; rises at every normal job end.",
    hw("req_cqe_flush_error", "mlx5", 32),
    hw("req_rx_cqe_flush", "ionic"),
)
REQ_REMOTE_ACCESS = counter(
    "node_infiniband_req_remote_access_errors_total",
    "events",
    "Remote access errors seen by the requester.",
    hw("req_remote_access_errors", "mlx5", 32),
    hw("req_rx_rmt_acc_err", "ionic"),
    hw("remote_access_err", "bnxt_re"),
)
REQ_REMOTE_INVALID = counter(
    "node_infiniband_req_remote_invalid_request_errors_total",
    "events",
    "Invalid-request errors seen by the requester.",
    hw("req_remote_invalid_request", "mlx5", 32),
    hw("req_rx_rmt_req_err", "ionic"),
    hw("remote_invalid_req_err", "bnxt_re"),
)
RESP_CQE_ERRORS = counter(
    "node_infiniband_resp_cqes_errors_total",
    "events",
    "Completions in error at the responder.",
    hw("resp_cqe_error", "mlx5", 32),
    hw("resp_rx_cqe_err", "ionic"),
    hw("res_cmp_err", "bnxt_re"),
)
RESP_CQE_FLUSH = counter(
    "node_infiniband_resp_cqes_flush_errors_total",
    "events",
    "Completions flushed in error at the responder; rises at every normal job end.",
    hw("resp_cqe_flush_error", "mlx5", 32),
    hw("resp_rx_cqe_flush", "ionic"),
)
RESP_LENGTH = counter(
    "node_infiniband_resp_local_length_errors_total",
    "events",
    "Local length errors at the responder.",
    hw("resp_local_length_error", "mlx5", 32),
    hw("resp_rx_loc_len_err", "ionic"),
    hw("res_length_mismatch", "bnxt_re"),
)
RESP_REMOTE_ACCESS = counter(
    "node_infiniband_resp_remote_access_errors_total",
    "events",
    "Remote access errors at the responder.",
    hw("resp_remote_access_errors", "mlx5", 32),
    hw("resp_tx_rmt_acc_err", "ionic"),
    hw("res_rx_no_perm", "bnxt_re"),
)
TX_ERRORS = counter(
    "fabric_rdma_tx_errors_total",
    "packets",
    "Packets that the device could not send.",
    hw("send_err", "rxe"),
    hw("tx_roce_errors", "bnxt_re"),
    hw("tx_err_pkt", "hns"),
)

MISSING_RESPONSES = counter(
    "fabric_rdma_missing_responses_total",
    "events",
    "Responses that the requester awaited in vain.",
    hw("missing_resp", "bnxt_re"),
)
BAD_RESPONSES = counter(
    "fabric_rdma_bad_responses_total",
    "events",
    "Responses that the requester could not use.",
    hw("bad_resp_err", "bnxt_re"),
    hw("req_rx_inval_pkts", "ionic"),
)
DUPLICATE_RESPONSES = counter(
    "fabric_rdma_duplicate_responses_total",
    "packets",
    "Responses received again.",
    hw("req_rx_dup_response", "ionic"),
)
RECOVERABLE = counter(
    "fabric_rdma_recoverable_errors_total",
    "events",
    "Errors that the device recovered from by itself.",
    hw("recoverable_errors", "bnxt_re"),
)
UNRECOVERABLE = counter(
    "fabric_rdma_unrecoverable_errors_total",
    "events",
    "Errors that put a queue pair into the error state.",
    hw("unrecoverable_err", "bnxt_re"),
)
REQ_LOCAL_OPERATION = counter(
    "fabric_rdma_requester_local_operation_errors_total",
    "events",
    "Local queue-pair operation errors at the requester.",
    hw("local_qp_op_err", "bnxt_re"),
    hw("req_tx_loc_oper_err", "ionic"),
    hw("sq_num_lqpoe", "mlx4", 32),
)
REQ_LOCAL_PROTECTION = counter(
    "fabric_rdma_requester_local_protection_errors_total",
    "events",
    "Local protection errors at the requester.",
    hw("local_protection_err", "bnxt_re"),
    hw("req_tx_loc_acc_err", "ionic"),
    hw("sq_num_lpe", "mlx4", 32),
)
REQ_MEMORY = counter(
    "fabric_rdma_requester_memory_errors_total",
    "events",
    "Memory management errors at the requester.",
    hw("mem_mgmt_op_err", "bnxt_re"),
    hw("req_tx_mem_mgmt_err", "ionic"),
    hw("sq_num_mwbe", "mlx4", 32),
)
REQ_REMOTE_OPERATION = counter(
    "fabric_rdma_requester_remote_operation_errors_total",
    "events",
    "Remote operation errors seen by the requester.",
    hw("remote_op_err", "bnxt_re"),
    hw("req_rx_oper_err", "ionic"),
    hw("sq_num_roe", "mlx4", 32),
)
RESP_INVALID_REQUEST = counter(
    "fabric_rdma_responder_invalid_requests_total",
    "events",
    "Invalid requests received.",
    hw("resp_rx_inval_request", "ionic"),
    hw("res_opcode_err", "bnxt_re"),
    hw("rq_num_rire", "mlx4", 32),
)
RESP_LOCAL_OPERATION = counter(
    "fabric_rdma_responder_local_operation_errors_total",
    "events",
    "Local operation errors at the responder.",
    hw("resp_rx_loc_oper_err", "ionic"),
    hw("rq_num_lqpoe", "mlx4", 32),
)
RESP_MEMORY = counter(
    "fabric_rdma_responder_memory_errors_total",
    "events",
    "Memory errors at the responder.",
    hw("res_mem_error", "bnxt_re"),
    hw("resp_tx_loc_sgl_inv_err", "ionic"),
)
RESP_UNSUPPORTED = counter(
    "fabric_rdma_responder_unsupported_opcodes_total",
    "events",
    "Requests received with an opcode that is not supported.",
    hw("res_unsup_opcode", "bnxt_re"),
)
RESP_ATOMIC = counter(
    "fabric_rdma_responder_atomic_errors_total",
    "events",
    "Atomic requests that could not be served: unaligned, or too many at once.",
    hw("res_unaligned_atomic", "bnxt_re"),
    hw("resp_rx_outof_atomic", "ionic"),
)
RESP_SRQ = counter(
    "fabric_rdma_responder_srq_errors_total",
    "events",
    "Shared receive queue errors at the responder.",
    hw("res_srq_err", "bnxt_re"),
)
RESP_READ_OVERFLOW = counter(
    "fabric_rdma_responder_read_queue_overflows_total",
    "events",
    "Reads received beyond what the responder had agreed to.",
    hw("res_irrq_oflow", "bnxt_re"),
)
PCI_TX_ERRORS = counter(
    "fabric_rdma_pci_tx_errors_total",
    "events",
    "PCIe errors while the device read host memory to send.",
    hw("res_tx_pci_err", "bnxt_re"),
)
PCI_RX_ERRORS = counter(
    "fabric_rdma_pci_rx_errors_total",
    "events",
    "PCIe errors while the device wrote received data to host memory.",
    hw("res_rx_pci_err", "bnxt_re"),
)
CQ_OVERFLOWS = counter(
    "fabric_rdma_cq_overflows_total",
    "events",
    "Completion queues that overflowed.",
    hw("num_cqovf", "mlx4", 32),
)
DOORBELL_DROPS = counter(
    "fabric_rdma_doorbell_pacing_alerts_total",
    "events",
    "Times that the doorbell queue of the device was close to full.",
    hw("pacing_alerts", "bnxt_re"),
)

# --- receiver not ready ------------------------------------------------------------------------
RNR_NAK_RX = counter(
    "node_infiniband_rnr_nak_retry_packets_received_total",
    "packets",
    "Receiver-not-ready NAKs received: the peer's application posts too few receives.",
    hw("rnr_nak_retry_err", "mlx5", 32),
    hw("rnr_naks_rcvd", "bnxt_re"),
    hw("rcvd_rnr_err", "rxe"),
    hw("req_rx_rnr_retry_err", "ionic"),
    hw("sq_num_rnr", "mlx4", 32),
)
RNR_NAK_TX = counter(
    "fabric_rdma_rnr_nak_tx_packets_total",
    "packets",
    "Receiver-not-ready NAKs sent: this host's application posts too few receives.",
    hw("send_rnr_err", "rxe"),
    hw("resp_tx_rnr_retry_err", "ionic"),
    hw("rq_num_rnr", "mlx4", 32),
)
OUT_OF_BUFFER = counter(
    "node_infiniband_out_of_buffer_drops_total",
    "packets",
    "Packets dropped because no receive was posted.",
    hw("out_of_buffer", "mlx5", 32),
    hw("rx_out_of_buffer", "bnxt_re"),
    hw("resp_rx_outof_buf", "ionic"),
)
RNR_RETRY_EXCEEDED = counter(
    "fabric_rdma_rnr_retry_exceeded_errors_total",
    "events",
    "Queue pairs that failed because the peer stayed not ready through all retries.",
    hw("req_rnr_retries_exceeded", "mlx5", 32),
    hw("retry_rnr_exceeded_err", "rxe"),
    hw("sq_num_rree", "mlx4", 32),
)

METRICS: Final = tuple(row for row in list(globals().values()) if isinstance(row, Metric))
