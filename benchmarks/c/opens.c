/* opens[comm()] += 1, without losing a count and saying so if the map is full. */
#include "kernel.h"

struct { __uint(type, HASH); __uint(max_entries, 10240); __type(key, char[16]); __type(value, u64); } opens SECTION(".maps");

SECTION("tracepoint/syscalls/sys_enter_openat") int on_open(void *ctx)
{
	char comm[16] = {};
	u64 zero = 0, *count;

	get_current_comm(comm, sizeof(comm));
	count = map_lookup_elem(&opens, comm);
	if (!count) {
		map_update_elem(&opens, comm, &zero, NOEXIST);
		count = map_lookup_elem(&opens, comm);
		if (!count) {
			count_lost(0);
			return 1;
		}
	}
	__sync_fetch_and_add(count, 1);
	return 1;
}
