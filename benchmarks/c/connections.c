// Short TCP connections over loopback: connections COUNT PORT. A child accepts and closes them; both ends close by RST
// when nothing is left to read, so that no port waits in TIME_WAIT. Prints the seconds that they took.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 0, listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct linger reset = { 1, 0 };
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct timespec began, ended;
	char byte = 'x';
	int status;

	if (argc != 3)
		return 2;
	at.sin_port = htons(atoi(argv[2]));
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener, (void *)&at, sizeof(at)) || listen(listener, 128))
		return perror("listen"), 1;
	clock_gettime(CLOCK_MONOTONIC, &began);
	if (!fork()) {
		for (int i = 0; i < count; i++) {
			int end = accept(listener, 0, 0);
			if (end < 0 || read(end, &byte, 1) != 1 || write(end, &byte, 1) != 1)
				_exit(1);
			while (read(end, &byte, 1) > 0)
				;
			close(end);
		}
		_exit(0);
	}
	for (int i = 0; i < count; i++) {
		int end = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(end, (void *)&at, sizeof(at)) || write(end, &byte, 1) != 1 || read(end, &byte, 1) != 1)
			return perror("connect"), 1;
		setsockopt(end, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		close(end);
	}
	wait(&status);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("%.6f\n", ended.tv_sec - began.tv_sec + (ended.tv_nsec - began.tv_nsec) / 1e9);
	return status != 0;
}
