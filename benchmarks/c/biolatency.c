/* The probe of block_rq_complete: time since the request was issued, in a histogram by powers of two, zero apart. */
#include "kernel.h"

struct request { unsigned int __data_len; } RELOCATED;

struct { __uint(type, HASH); __uint(max_entries, 10240); __type(key, u64); __type(value, u64); } starts SECTION(".maps");
struct { __uint(type, PERCPU_ARRAY); __uint(max_entries, 1); __type(key, u32); __type(value, u64[66]); } latency SECTION(".maps");

INLINE u64 bucket(u64 v)
{
	u64 r = (v > 0xffffffff) << 5, s;

	if (!v)
		return 0;
	v >>= r;
	s = (v > 0xffff) << 4; v >>= s; r |= s;
	s = (v > 0xff) << 3; v >>= s; r |= s;
	s = (v > 0xf) << 2; v >>= s; r |= s;
	s = (v > 0x3) << 1; v >>= s; r |= s;
	return (r | v >> 1) + 1;
}

SECTION("tp_btf/block_rq_complete") int on_complete(u64 *ctx)
{
	struct request *rq = (void *)ctx[0];
	u32 nr_bytes = ctx[2], zero = 0;
	u64 key = (u64)rq, elapsed, *began, *buckets, at;

	if (nr_bytes < rq->__data_len)
		return 0;
	began = map_lookup_elem(&starts, &key);
	if (!began)
		return 0;
	elapsed = *began;
	map_delete_elem(&starts, &key);
	elapsed = (ktime_get_ns() - elapsed) / 1000;
	buckets = map_lookup_elem(&latency, &zero);
	if (!buckets)
		return 0;
	at = bucket(elapsed);
	if (at < 66)
		__sync_fetch_and_add(&buckets[at], 1);
	return 0;
}
