// SPDX-License-Identifier: GPL-2.0
/*
 * Network interfaces without hardware, with the controls that RoCE needs: PFC, ETS, DSCP rules,
 * receive buffers and rate limits over dcbnl, 802.3x pause, and ethtool statistics under the
 * names that mlx5 uses. They come in pairs, as if by a cable: what one sends the other receives.
 *
 * Nothing is ever paused. Counters of pause frames move when somebody writes
 * "PRIORITY FRAMES MICROSECONDS" (priority -1: 802.3x) to debugfs fabric_lab_nic/<netdev>/rx_pfc
 * or tx_pfc; "rx_discards N" and "fec N" likewise by files of those names.
 */
#include <linux/debugfs.h>
#include <linux/dcbnl.h>
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/uaccess.h>
#include <net/dcbnl.h>
#include <net/dsfield.h>

#define PRIORITIES 8
#define SPEED_MBPS 400000

static unsigned int pairs = 1;
module_param(pairs, uint, 0444);
MODULE_PARM_DESC(pairs, "how many pairs of interfaces");

struct lab_priority {
	atomic64_t rx_bytes, rx_packets, tx_bytes, tx_packets;
	atomic64_t rx_pause, rx_pause_us, tx_pause, tx_pause_us;
};

struct lab_nic {
	struct net_device *dev;
	struct net_device *peer;
	struct dentry *debugfs;
	struct lab_priority priority[PRIORITIES];
	atomic64_t rx_pause, tx_pause, rx_discards, link_downs, fec_corrected;
	struct ieee_ets ets;
	struct ieee_pfc pfc;
	struct ieee_maxrate maxrate;
	struct dcbnl_buffer buffer;
	bool pause_autoneg, pause_rx, pause_tx;
	u8 dcbx;
};

static struct net_device **devices;

/* --- traffic ----------------------------------------------------------------------------- */

/* Priority of a packet as a NIC that trusts DSCP sees it: by the rules of `dcb app`. */
static u8 lab_priority_of(struct net_device *dev, const struct sk_buff *skb)
{
	struct dcb_app app = { .selector = IEEE_8021QAZ_APP_SEL_DSCP };
	u8 mask;

	if (skb->protocol == htons(ETH_P_IP))
		app.protocol = ipv4_get_dsfield(ip_hdr(skb)) >> 2;
	else if (skb->protocol == htons(ETH_P_IPV6))
		app.protocol = ipv6_get_dsfield(ipv6_hdr(skb)) >> 2;
	else
		return 0;
	mask = dcb_ieee_getapp_mask(dev, &app);
	return mask ? fls(mask) - 1 : 0;
}

static netdev_tx_t lab_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct lab_nic *nic = netdev_priv(dev), *other = netdev_priv(nic->peer);
	u8 priority = lab_priority_of(dev, skb);
	unsigned int length = skb->len;

	atomic64_add(length, &nic->priority[priority].tx_bytes);
	atomic64_inc(&nic->priority[priority].tx_packets);
	if (!netif_running(nic->peer)) {
		dev_kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	skb_tx_timestamp(skb);
	if (dev_forward_skb(nic->peer, skb) == NET_RX_SUCCESS) {
		atomic64_add(length, &other->priority[priority].rx_bytes);
		atomic64_inc(&other->priority[priority].rx_packets);
	} else {
		atomic64_inc(&other->rx_discards);
	}
	return NETDEV_TX_OK;
}

static int lab_open(struct net_device *dev)
{
	struct lab_nic *nic = netdev_priv(dev);

	if (netif_running(nic->peer)) {
		netif_carrier_on(dev);
		netif_carrier_on(nic->peer);
	}
	return 0;
}

static int lab_stop(struct net_device *dev)
{
	struct lab_nic *nic = netdev_priv(dev);

	netif_carrier_off(dev);
	netif_carrier_off(nic->peer);
	atomic64_inc(&nic->link_downs);
	return 0;
}

static void lab_stats64(struct net_device *dev, struct rtnl_link_stats64 *stats)
{
	struct lab_nic *nic = netdev_priv(dev);
	int p;

	for (p = 0; p < PRIORITIES; p++) {
		stats->rx_bytes += atomic64_read(&nic->priority[p].rx_bytes);
		stats->rx_packets += atomic64_read(&nic->priority[p].rx_packets);
		stats->tx_bytes += atomic64_read(&nic->priority[p].tx_bytes);
		stats->tx_packets += atomic64_read(&nic->priority[p].tx_packets);
	}
	stats->rx_dropped = atomic64_read(&nic->rx_discards);
}

static const struct net_device_ops lab_netdev_ops = {
	.ndo_open = lab_open,
	.ndo_stop = lab_stop,
	.ndo_start_xmit = lab_xmit,
	.ndo_get_stats64 = lab_stats64,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

/* --- ethtool ----------------------------------------------------------------------------- */

static const char *const lab_by_priority[] = {
	"rx_prio%d_bytes", "rx_prio%d_packets", "tx_prio%d_bytes", "tx_prio%d_packets",
};

static const char *const lab_by_pfc[] = {
	"rx_prio%d_pause", "rx_prio%d_pause_duration", "tx_prio%d_pause", "tx_prio%d_pause_duration",
};

static const char *const lab_port[] = {
	"rx_pause_ctrl_phy", "tx_pause_ctrl_phy", "rx_discards_phy", "link_down_events_phy",
	"outbound_pci_stalled_rd",
};

static void lab_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, "fabric_lab_nic", sizeof(info->driver));
	strscpy(info->fw_version, "1.0", sizeof(info->fw_version));
}

/* As with mlx5, a priority has PFC statistics only while PFC is on for it. */
static int lab_sset_count(struct net_device *dev, int set)
{
	struct lab_nic *nic = netdev_priv(dev);

	if (set != ETH_SS_STATS)
		return -EOPNOTSUPP;
	return PRIORITIES * ARRAY_SIZE(lab_by_priority) +
	       hweight8(nic->pfc.pfc_en) * ARRAY_SIZE(lab_by_pfc) + ARRAY_SIZE(lab_port);
}

static void lab_strings(struct net_device *dev, u32 set, u8 *data)
{
	struct lab_nic *nic = netdev_priv(dev);
	int p, i;

	if (set != ETH_SS_STATS)
		return;
	for (p = 0; p < PRIORITIES; p++) {
		for (i = 0; i < ARRAY_SIZE(lab_by_priority); i++)
			ethtool_sprintf(&data, lab_by_priority[i], p);
		if (!(nic->pfc.pfc_en & BIT(p)))
			continue;
		for (i = 0; i < ARRAY_SIZE(lab_by_pfc); i++)
			ethtool_sprintf(&data, lab_by_pfc[i], p);
	}
	for (i = 0; i < ARRAY_SIZE(lab_port); i++)
		ethtool_sprintf(&data, lab_port[i]);
}

static void lab_statistics(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	struct lab_nic *nic = netdev_priv(dev);
	int p;

	for (p = 0; p < PRIORITIES; p++) {
		struct lab_priority *counts = &nic->priority[p];

		*data++ = atomic64_read(&counts->rx_bytes);
		*data++ = atomic64_read(&counts->rx_packets);
		*data++ = atomic64_read(&counts->tx_bytes);
		*data++ = atomic64_read(&counts->tx_packets);
		if (!(nic->pfc.pfc_en & BIT(p)))
			continue;
		*data++ = atomic64_read(&counts->rx_pause);
		*data++ = atomic64_read(&counts->rx_pause_us);
		*data++ = atomic64_read(&counts->tx_pause);
		*data++ = atomic64_read(&counts->tx_pause_us);
	}
	*data++ = atomic64_read(&nic->rx_pause);
	*data++ = atomic64_read(&nic->tx_pause);
	*data++ = atomic64_read(&nic->rx_discards);
	*data++ = atomic64_read(&nic->link_downs);
	*data++ = 0;
}

static void lab_get_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct lab_nic *nic = netdev_priv(dev);

	pause->autoneg = nic->pause_autoneg;
	pause->rx_pause = nic->pause_rx;
	pause->tx_pause = nic->pause_tx;
}

static int lab_set_pause(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct lab_nic *nic = netdev_priv(dev);

	if (nic->pfc.pfc_en && (pause->rx_pause || pause->tx_pause))
		netdev_warn(dev, "802.3x pause together with PFC\n");
	nic->pause_autoneg = pause->autoneg;
	nic->pause_rx = pause->rx_pause;
	nic->pause_tx = pause->tx_pause;
	return 0;
}

static void lab_pause_stats(struct net_device *dev, struct ethtool_pause_stats *stats)
{
	struct lab_nic *nic = netdev_priv(dev);

	stats->rx_pause_frames = atomic64_read(&nic->rx_pause);
	stats->tx_pause_frames = atomic64_read(&nic->tx_pause);
}

static void lab_mac_stats(struct net_device *dev, struct ethtool_eth_mac_stats *stats)
{
	struct rtnl_link_stats64 all = {};

	lab_stats64(dev, &all);
	stats->FramesReceivedOK = all.rx_packets;
	stats->OctetsReceivedOK = all.rx_bytes;
	stats->FramesTransmittedOK = all.tx_packets;
	stats->OctetsTransmittedOK = all.tx_bytes;
}

static int lab_fecparam(struct net_device *dev, struct ethtool_fecparam *fec)
{
	fec->fec = ETHTOOL_FEC_RS;
	fec->active_fec = ETHTOOL_FEC_RS;
	return 0;
}

static void lab_fec_stats(struct net_device *dev, struct ethtool_fec_stats *stats)
{
	struct lab_nic *nic = netdev_priv(dev);

	stats->corrected_blocks.total = atomic64_read(&nic->fec_corrected);
	stats->uncorrectable_blocks.total = 0;
}

static int lab_link(struct net_device *dev, struct ethtool_link_ksettings *link)
{
	ethtool_link_ksettings_zero_link_mode(link, supported);
	ethtool_link_ksettings_add_link_mode(link, supported, 400000baseCR4_Full);
	link->base.speed = SPEED_MBPS;
	link->base.duplex = DUPLEX_FULL;
	link->base.autoneg = AUTONEG_DISABLE;
	link->lanes = 4;
	return 0;
}

static const struct ethtool_ops lab_ethtool_ops = {
	.get_drvinfo = lab_drvinfo,
	.get_link = ethtool_op_get_link,
	.get_link_ksettings = lab_link,
	.get_sset_count = lab_sset_count,
	.get_strings = lab_strings,
	.get_ethtool_stats = lab_statistics,
	.get_pauseparam = lab_get_pause,
	.set_pauseparam = lab_set_pause,
	.get_pause_stats = lab_pause_stats,
	.get_eth_mac_stats = lab_mac_stats,
	.get_fecparam = lab_fecparam,
	.get_fec_stats = lab_fec_stats,
};

/* --- data centre bridging ---------------------------------------------------------------- */

static int lab_getets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = ((struct lab_nic *)netdev_priv(dev))->ets;
	return 0;
}

static int lab_setets(struct net_device *dev, struct ieee_ets *ets)
{
	struct lab_nic *nic = netdev_priv(dev);
	int i, sum = 0, shared = 0;

	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++) {
		if (ets->prio_tc[i] >= IEEE_8021QAZ_MAX_TCS)
			return -EINVAL;
		if (ets->tc_tsa[i] != IEEE_8021QAZ_TSA_ETS)
			continue;
		shared++;
		sum += ets->tc_tx_bw[i];
	}
	if (shared && sum != 100)
		return -EINVAL;
	nic->ets = *ets;
	nic->ets.ets_cap = IEEE_8021QAZ_MAX_TCS;
	return 0;
}

static int lab_getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct lab_nic *nic = netdev_priv(dev);
	int p;

	*pfc = nic->pfc;
	for (p = 0; p < PRIORITIES; p++) {
		pfc->indications[p] = atomic64_read(&nic->priority[p].rx_pause);
		pfc->requests[p] = atomic64_read(&nic->priority[p].tx_pause);
	}
	return 0;
}

static int lab_setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	struct lab_nic *nic = netdev_priv(dev);

	nic->pfc.pfc_en = pfc->pfc_en;
	nic->pfc.delay = pfc->delay;
	nic->pfc.mbc = pfc->mbc;
	return 0;
}

static int lab_getmaxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	*rate = ((struct lab_nic *)netdev_priv(dev))->maxrate;
	return 0;
}

static int lab_setmaxrate(struct net_device *dev, struct ieee_maxrate *rate)
{
	((struct lab_nic *)netdev_priv(dev))->maxrate = *rate;
	return 0;
}

static int lab_getbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = ((struct lab_nic *)netdev_priv(dev))->buffer;
	return 0;
}

static int lab_setbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	struct lab_nic *nic = netdev_priv(dev);
	u32 total = nic->buffer.total_size, sum = 0;
	int i;

	for (i = 0; i < DCBX_MAX_BUFFERS; i++)
		sum += buffer->buffer_size[i];
	if (sum > total)
		return -ENOSPC;
	nic->buffer = *buffer;
	nic->buffer.total_size = total;
	return 0;
}

static u8 lab_getdcbx(struct net_device *dev)
{
	return ((struct lab_nic *)netdev_priv(dev))->dcbx;
}

static u8 lab_setdcbx(struct net_device *dev, u8 mode)
{
	if (mode & ~(DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE))
		return 1;
	((struct lab_nic *)netdev_priv(dev))->dcbx = mode;
	return 0;
}

/* Rules of `dcb app` are kept by the kernel itself. */
static const struct dcbnl_rtnl_ops lab_dcbnl_ops = {
	.ieee_getets = lab_getets,
	.ieee_setets = lab_setets,
	.ieee_getpfc = lab_getpfc,
	.ieee_setpfc = lab_setpfc,
	.ieee_getmaxrate = lab_getmaxrate,
	.ieee_setmaxrate = lab_setmaxrate,
	.dcbnl_getbuffer = lab_getbuffer,
	.dcbnl_setbuffer = lab_setbuffer,
	.getdcbx = lab_getdcbx,
	.setdcbx = lab_setdcbx,
};

/* --- counters that somebody moves ---------------------------------------------------------- */

static ssize_t lab_write_pfc(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	struct lab_nic *nic = file->private_data;
	bool rx = file_dentry(file)->d_name.name[0] == 'r';
	unsigned long long frames, microseconds;
	char text[64] = {};
	int priority;

	if (size >= sizeof(text) || copy_from_user(text, from, size))
		return -EINVAL;
	if (sscanf(text, "%d %llu %llu", &priority, &frames, &microseconds) != 3 ||
	    priority < -1 || priority >= PRIORITIES)
		return -EINVAL;
	if (priority < 0) {
		atomic64_add(frames, rx ? &nic->rx_pause : &nic->tx_pause);
	} else {
		struct lab_priority *counts = &nic->priority[priority];

		atomic64_add(frames, rx ? &counts->rx_pause : &counts->tx_pause);
		atomic64_add(microseconds, rx ? &counts->rx_pause_us : &counts->tx_pause_us);
	}
	return size;
}

static const struct file_operations lab_pfc_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = lab_write_pfc,
};

static ssize_t lab_write_count(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	u64 count;
	int error = kstrtou64_from_user(from, size, 0, &count);

	if (error)
		return error;
	atomic64_add(count, file->private_data);
	return size;
}

static const struct file_operations lab_count_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = lab_write_count,
};

/* --- life ------------------------------------------------------------------------------------ */

static void lab_setup(struct net_device *dev)
{
	ether_setup(dev);
	dev->netdev_ops = &lab_netdev_ops;
	dev->ethtool_ops = &lab_ethtool_ops;
	dev->dcbnl_ops = &lab_dcbnl_ops;
	dev->needs_free_netdev = false;
	dev->max_mtu = 9978;
	dev->min_mtu = ETH_MIN_MTU;
	dev->priv_flags &= ~IFF_TX_SKB_SHARING;
	dev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
	eth_hw_addr_random(dev);
}

static void lab_defaults(struct lab_nic *nic)
{
	int i;

	nic->ets.ets_cap = IEEE_8021QAZ_MAX_TCS;
	for (i = 0; i < IEEE_8021QAZ_MAX_TCS; i++)
		nic->ets.tc_tsa[i] = IEEE_8021QAZ_TSA_STRICT;
	nic->pfc.pfc_cap = PRIORITIES;
	nic->pfc.delay = 7;
	nic->buffer.total_size = 1 << 20;
	nic->buffer.buffer_size[0] = 1 << 19;
	nic->dcbx = DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
}

static struct dentry *lab_debugfs;

static int lab_create(unsigned int index)
{
	struct net_device *dev = alloc_netdev(sizeof(struct lab_nic), "lab%d", NET_NAME_ENUM, lab_setup);
	struct lab_nic *nic;

	if (!dev)
		return -ENOMEM;
	nic = netdev_priv(dev);
	nic->dev = dev;
	lab_defaults(nic);
	devices[index] = dev;
	return 0;
}

static void lab_remove(void)
{
	unsigned int i;

	debugfs_remove_recursive(lab_debugfs);
	for (i = 0; i < 2 * pairs; i++) {
		if (!devices[i])
			continue;
		if (devices[i]->reg_state == NETREG_REGISTERED)
			unregister_netdev(devices[i]);
	}
	for (i = 0; i < 2 * pairs; i++)
		if (devices[i])
			free_netdev(devices[i]);
	kfree(devices);
}

static int __init lab_init(void)
{
	unsigned int i;
	int error = 0;

	if (pairs < 1 || pairs > 64)
		return -EINVAL;
	devices = kcalloc(2 * pairs, sizeof(*devices), GFP_KERNEL);
	if (!devices)
		return -ENOMEM;
	lab_debugfs = debugfs_create_dir("fabric_lab_nic", NULL);
	for (i = 0; i < 2 * pairs && !error; i++)
		error = lab_create(i);
	for (i = 0; i < 2 * pairs && !error; i++) {
		struct lab_nic *nic = netdev_priv(devices[i]);

		nic->peer = devices[i ^ 1];
		netif_carrier_off(devices[i]);
		error = register_netdev(devices[i]);
		if (error)
			break;
		nic->debugfs = debugfs_create_dir(devices[i]->name, lab_debugfs);
		debugfs_create_file("rx_pfc", 0200, nic->debugfs, nic, &lab_pfc_fops);
		debugfs_create_file("tx_pfc", 0200, nic->debugfs, nic, &lab_pfc_fops);
		debugfs_create_file("rx_discards", 0200, nic->debugfs, &nic->rx_discards, &lab_count_fops);
		debugfs_create_file("fec", 0200, nic->debugfs, &nic->fec_corrected, &lab_count_fops);
	}
	if (error)
		lab_remove();
	return error;
}

static void __exit lab_exit(void)
{
	lab_remove();
}

module_init(lab_init);
module_exit(lab_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Interfaces without hardware, with PFC, ETS and mlx5-like statistics");
