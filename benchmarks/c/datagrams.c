// UDP datagrams as fast as one processor sends them: datagrams COUNT ADDRESS PORT, marked Congestion Encountered (ECN).
// Prints the seconds that they took.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum { BATCH = 64 };

int main(int argc, char **argv)
{
	int end = socket(AF_INET, SOCK_DGRAM, 0), marked = 3, left;
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct mmsghdr messages[BATCH] = {};
	struct iovec data = { "x", 1 };
	struct timespec began, ended;

	if (argc != 4 || !inet_aton(argv[2], &to.sin_addr))
		return 2;
	left = atoi(argv[1]);
	to.sin_port = htons(atoi(argv[3]));
	setsockopt(end, IPPROTO_IP, 1 /* IP_TOS */, &marked, sizeof(marked));
	if (connect(end, (void *)&to, sizeof(to)))
		return perror("connect"), 1;
	for (int i = 0; i < BATCH; i++) {
		messages[i].msg_hdr.msg_iov = &data;
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	clock_gettime(CLOCK_MONOTONIC, &began);
	while (left > 0) {
		int sent = sendmmsg(end, messages, left < BATCH ? left : BATCH, 0);
		if (sent < 0)
			return perror("sendmmsg"), 1;
		left -= sent;
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("%.6f\n", ended.tv_sec - began.tv_sec + (ended.tv_nsec - began.tv_nsec) / 1e9);
	return 0;
}
