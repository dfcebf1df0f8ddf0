/* The probe of inet_sock_set_state: beginnings and owners of sessions noted, a record for each that closes. */
#include "kernel.h"

struct in6_addr { union { u8 u6_addr8[16]; } in6_u; } RELOCATED;
struct sock_common {
	u32 skc_daddr, skc_rcv_saddr;
	u16 skc_dport, skc_family;
	struct in6_addr skc_v6_daddr, skc_v6_rcv_saddr;
	unsigned long skc_flags;
} RELOCATED;
struct sock { struct sock_common __sk_common; u16 sk_protocol; } RELOCATED;
struct inet_sock { u16 inet_sport; } RELOCATED;
struct tcp_sock { u64 bytes_sent, bytes_retrans, bytes_received; } RELOCATED;

struct owner { u32 pid; char comm[16]; };
struct closed {
	u64 began, ended, sent, received;
	u32 local4, remote4, pid;
	u16 family, local_port, remote_port;
	u8 local6[16], remote6[16];
	char comm[16];
	u8 padding[6];
};

struct { __uint(type, HASH); __uint(max_entries, 65536); __type(key, u64); __type(value, u64); } began SECTION(".maps");
struct { __uint(type, HASH); __uint(max_entries, 65536); __type(key, u64); __type(value, struct owner); } owners SECTION(".maps");
struct { __uint(type, RINGBUF); __uint(max_entries, 262144); } closed SECTION(".maps");

enum { ESTABLISHED = 1, SYN_SENT, SYN_RECV, FIN_WAIT1, CLOSE = 7, LAST_ACK = 9, TCP = 6, SOCK_DONE = 1, EEXIST = 17 };

INLINE void own(u64 *key, u64 flags)
{
	struct owner owner = {};

	owner.pid = get_current_pid_tgid() >> 32;
	get_current_comm(owner.comm, sizeof(owner.comm));
	long error = map_update_elem(&owners, key, &owner, flags);

	if (error && error != -EEXIST)
		count_lost(0);
}

/* What a cast made untrusted is read by the helper. */
#define READ(p, member) ({ typeof((p)->member) _v; probe_read_kernel(&_v, sizeof(_v), __builtin_preserve_access_index(&(p)->member)); _v; })

SECTION("tp_btf/inet_sock_set_state") int on_state(u64 *ctx)
{
	struct sock *sk = (void *)ctx[0];
	struct tcp_sock *tcp = (void *)sk;
	int state = ctx[2];
	u64 key = (u64)sk, now, *start;
	struct owner *owner;
	struct closed *record;

	if (sk->sk_protocol != TCP)
		return 0;
	if (state == SYN_SENT || state == SYN_RECV || state == ESTABLISHED) {
		now = ktime_get_ns();
		if (map_update_elem(&began, &key, &now, ANY))
			count_lost(1);
		if (state == SYN_SENT)
			own(&key, ANY);
		return 0;
	}
	start = map_lookup_elem(&began, &key);
	if (!start)
		return 0;
	if (state == FIN_WAIT1 || state == LAST_ACK)
		own(&key, NOEXIST);
	if (state != CLOSE)
		return 0;
	record = ringbuf_reserve(&closed, sizeof(*record), 0);
	if (!record) {
		count_lost(2);
		map_delete_elem(&owners, &key);
		map_delete_elem(&began, &key);
		return 0;
	}
	record->began = *start;
	record->ended = ktime_get_ns();
	record->sent = READ(tcp, bytes_sent) - READ(tcp, bytes_retrans);
	record->received = READ(tcp, bytes_received) - (sk->__sk_common.skc_flags >> SOCK_DONE & 1);
	record->local4 = __builtin_bswap32(sk->__sk_common.skc_rcv_saddr);
	record->remote4 = __builtin_bswap32(sk->__sk_common.skc_daddr);
	record->pid = 0;
	record->family = sk->__sk_common.skc_family;
	record->local_port = __builtin_bswap16(READ((struct inet_sock *)sk, inet_sport));
	record->remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	probe_read_kernel(record->local6, 16, __builtin_preserve_access_index(&sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8));
	probe_read_kernel(record->remote6, 16, __builtin_preserve_access_index(&sk->__sk_common.skc_v6_daddr.in6_u.u6_addr8));
	__builtin_memset(record->comm, 0, sizeof(record->comm));
	__builtin_memset(record->padding, 0, sizeof(record->padding));
	owner = map_lookup_elem(&owners, &key);
	if (owner) {
		record->pid = owner->pid;
		__builtin_memcpy(record->comm, owner->comm, sizeof(record->comm));
		map_delete_elem(&owners, &key);
	}
	map_delete_elem(&began, &key);
	ringbuf_submit(record, 0);
	return 0;
}
