/* What the tests of uprobes and USDT probes trace: a program that calls its functions as often as it is told, and a
   library of the same functions. Notes are written by hand, as <sys/sdt.h> writes them. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOTE(provider, name, semaphore, arguments)                                                                     \
    "990: nop\n"                                                                                                       \
    ".pushsection .note.stapsdt, \"\", \"note\"\n"                                                                     \
    ".balign 4\n"                                                                                                      \
    ".4byte 992f - 991f, 994f - 993f, 3\n"                                                                             \
    "991: .asciz \"stapsdt\"\n"                                                                                        \
    "992: .balign 4\n"                                                                                                 \
    "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                                                                \
    ".asciz \"" provider "\"\n"                                                                                        \
    ".asciz \"" name "\"\n"                                                                                            \
    ".asciz \"" arguments "\"\n"                                                                                       \
    "994: .balign 4\n"                                                                                                 \
    ".popsection\n"

__asm__(".pushsection .stapsdt.base, \"a\", \"progbits\"\n"
        "_.stapsdt.base: .space 1\n"
        ".popsection\n");

/* Arguments where the compiler has them, sizes as those of their types (%n prints a number negated: signed ones). */
#define PROBE2(name, first, second)                                                                                    \
    __asm__ volatile(NOTE("traced", name, "0", "%n[s1]@%[a1] %n[s2]@%[a2]")                                            \
                     :                                                                                                 \
                     : [s1] "n"(sizeof(first)), [a1] "nor"(first), [s2] "n"(sizeof(second)), [a2] "nor"(second))

unsigned short traced_semaphore __attribute__((section(".probes"), visibility("hidden")));
unsigned int shared_number __attribute__((visibility("hidden"))) = 0xDEADBEEF;
static long table[] __attribute__((used)) = {11, 13, 17, 19, 23};
int datum = 5;

__attribute__((noinline)) long nine(long a, int b, short c, signed char d, unsigned e, const char *text, long g, int h,
                                    unsigned char i)
{
    __asm__ volatile("");
    return a + b + c + d + e + text[0] + g + h + i;
}

__attribute__((noinline)) int negative(int a)
{
    __asm__ volatile("");
    return -a;
}

/* Four instructions. */
__asm__(".text\n.globl stepping\n.type stepping, @function\nstepping: nop\nnop\nnop\nret\n.size stepping, . - stepping\n");
void stepping(void);

/* Every form of an argument that the architecture has: registers and parts of them, memory, memory with an index,
   constants, and symbols. Called with 3. */
#if defined(__x86_64__)
__asm__(".text\n.globl forms\n.type forms, @function\n"
        "forms: sub $24, %rsp\n"
        "movl $-7, 8(%rsp)\n"
        "lea table(%rip), %r9\n"
        "movabs $0x1122334455667788, %rax\n"
        "mov $0xFFFFFFFFFFFFFF9C, %r10\n"
        NOTE("traced", "forms", "0",
             "8@%rdi -4@8(%rsp) -4@$-5 8@(%r9,%rdi,8) 4@shared_number(%rip) 1@%al 2@%ax -1@%r10b 4@%eax 8@16(%r9) "
             "-8@-8(%r9,%rdi,8) 2@2+shared_number(%rip)")
        "add $24, %rsp\n"
        "ret\n.size forms, . - forms\n");
#elif defined(__aarch64__)
__asm__(".text\n.globl forms\n.type forms, @function\n"
        "forms: sub sp, sp, #32\n"
        "mov w9, #-7\n"
        "str w9, [sp, #8]\n"
        "adrp x9, table\n"
        "add x9, x9, :lo12:table\n"
        "adrp x12, shared_number\n"
        "add x12, x12, :lo12:shared_number\n"
        "movz x10, #0x7788\n"
        "movk x10, #0x5566, lsl #16\n"
        "movk x10, #0x3344, lsl #32\n"
        "movk x10, #0x1122, lsl #48\n"
        "mov x11, #-100\n"
        "mov x13, #16\n"
        NOTE("traced", "forms", "0",
             "8@x0 -4@[sp, 8] -4@-5 8@[x9, x0, lsl 3] 4@[x12] 1@w10 2@x10 -1@x11 4@w10 8@[x9, 16] -8@[x9, x13] "
             "2@[x12, #2]")
        "add sp, sp, #32\n"
        "ret\n.size forms, . - forms\n");
#endif
void forms(long index);

__attribute__((noinline)) void first_place(long n)
{
    PROBE2("twice", n, (short)-n);
}

__attribute__((noinline)) void second_place(int n)
{
    volatile long kept = n * 1000L;
    PROBE2("twice", 4242L, kept);
}

__attribute__((noinline)) void guarded(int n)
{
    if (*(volatile unsigned short *)&traced_semaphore)
        __asm__ volatile(NOTE("traced", "guarded", "traced_semaphore", "-4@%[n]") : : [n] "r"(n));
}

/* Calls itself n times, between two USDT probes. */
__attribute__((noinline)) long deep(long n)
{
    PROBE2("deeper", n, (short)-n);
    long found = n > 0 ? deep(n - 1) + 1 : 0;
    PROBE2("back", n, (short)-n);
    return found;
}

#define MANY(n) __attribute__((noinline)) void many_##n(void) { __asm__ volatile("nop"); }
#define TEN(n) MANY(n##0) MANY(n##1) MANY(n##2) MANY(n##3) MANY(n##4) MANY(n##5) MANY(n##6) MANY(n##7) MANY(n##8) MANY(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
HUNDRED(0)
HUNDRED(1)
#define CALL(n) many_##n();
#define CALL_TEN(n) CALL(n##0) CALL(n##1) CALL(n##2) CALL(n##3) CALL(n##4) CALL(n##5) CALL(n##6) CALL(n##7) CALL(n##8) CALL(n##9)
#define CALL_HUNDRED(n) CALL_TEN(n##0) CALL_TEN(n##1) CALL_TEN(n##2) CALL_TEN(n##3) CALL_TEN(n##4) CALL_TEN(n##5) CALL_TEN(n##6) CALL_TEN(n##7) CALL_TEN(n##8) CALL_TEN(n##9)

__attribute__((noinline)) void all_many(void)
{
    CALL_HUNDRED(0)
    CALL_HUNDRED(1)
}

static void call(const char *name, int times)
{
    for (int n = 1; n <= times; n++) {
        if (!strcmp(name, "nine"))
            nine(-n, -2, -3, -4, 0xFFFFFFFBu, "six", 1L << 40, -8, 200);
        else if (!strcmp(name, "negative"))
            negative(n);
        else if (!strcmp(name, "stepping"))
            stepping();
        else if (!strcmp(name, "forms"))
            forms(3);
        else if (!strcmp(name, "twice"))
            first_place(n), second_place(n);
        else if (!strcmp(name, "guarded"))
            guarded(n);
        else if (!strcmp(name, "deep"))
            deep(n);
        else if (!strcmp(name, "many"))
            all_many();
    }
}

#ifdef LIBRARY
void call_in_library(const char *name, int times)
{
    call(name, times);
}

/* One name, two versions. */
__attribute__((noinline)) int old_version(int n) { __asm__ volatile(""); return n + 1; }
__attribute__((noinline)) int new_version(int n) { __asm__ volatile("nop"); return n + 2; }
__asm__(".symver old_version, versioned@V1\n.symver new_version, versioned@@V2");

/* One name, an implementation chosen when the library is loaded. */
static int __attribute__((used)) ifunc_plain(int n) { return n; }
static void *choose(void) { return (void *)ifunc_plain; }
int chosen(int n) __attribute__((ifunc("choose")));
#else
/* "NAME TIMES" calls a function of this program, "load PATH" loads a library, "in NAME TIMES" calls one there,
   "version V TIMES" a version of `versioned`; each line is answered when it is done. */
int main(void)
{
    char line[4096], name[4096];
    void *library = NULL;
    int times;
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (fgets(line, sizeof(line), stdin)) {
#ifndef STATIC
        if (sscanf(line, "load %s", name) == 1)
            library = dlopen(name, RTLD_NOW);
        else if (sscanf(line, "in %s %d", name, &times) == 2)
            ((void (*)(const char *, int))dlsym(library, "call_in_library"))(name, times);
        else if (sscanf(line, "version %s %d", name, &times) == 2)
            while (times--)
                ((int (*)(int))dlvsym(library, "versioned", name))(times);
        else
#endif
        if (sscanf(line, "%s %d", name, &times) == 2)
            call(name, times);
        puts("done");
    }
    return 0;
}
#endif
