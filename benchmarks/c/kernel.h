/* What the three programs beside this file need: types, helpers by their numbers, maps as libbpf declares them. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define NULL ((void *)0)
#define SECTION(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define RELOCATED __attribute__((preserve_access_index))
#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name

enum { HASH = 1, ARRAY = 2, PERCPU_ARRAY = 6, RINGBUF = 27, ANY = 0, NOEXIST = 1 };

static void *(*const map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const map_update_elem)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete_elem)(void *map, const void *key) = (void *)3;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u64 (*const get_current_pid_tgid)(void) = (void *)14;
static long (*const get_current_comm)(void *buffer, u32 size) = (void *)16;
static long (*const probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static void *(*const ringbuf_reserve)(void *ring, u64 size, u64 flags) = (void *)131;
static void (*const ringbuf_submit)(void *data, u64 flags) = (void *)132;

/* Losses: counters in the only value of an array, as global variables are. */
static volatile u64 lost[4];

INLINE void count_lost(int reason) { __sync_fetch_and_add(&lost[reason], 1); }
