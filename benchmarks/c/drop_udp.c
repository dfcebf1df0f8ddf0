/* docs/examples/drop_udp.py, port 7919: UDP to one port is dropped and counted by processor. */
#include "kernel.h"

struct xdp_md { u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex; };
struct ethernet { unsigned char destination[6], source[6]; unsigned short protocol; };
struct ipv4 { unsigned char length : 4, version : 4, service; unsigned short size, id, fragment; unsigned char ttl, protocol; unsigned short checksum; u32 source, destination; };
struct udp { unsigned short source, destination, length, checksum; };

struct { __uint(type, PERCPU_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64); } dropped SECTION(".maps");

SECTION("xdp") int drop(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethernet *ethernet = data;
	struct ipv4 *ip = data + 14;
	struct udp *udp;
	u32 zero = 0;
	u64 *count;

	if (data + 14 > end || ethernet->protocol != __builtin_bswap16(0x0800))
		return 2;
	if (data + 34 > end || ip->protocol != 17)
		return 2;
	udp = data + 14 + ip->length * 4;
	if ((void *)(udp + 1) > end || udp->destination != __builtin_bswap16(7919))
		return 2;
	count = map_lookup_elem(&dropped, &zero);
	if (count)
		__sync_fetch_and_add(count, 1);
	return 1;
}
