// SPDX-License-Identifier: MIT
/*
 * hostile SOCKET MODE - a client that the daemon must survive.
 *
 *	long	a line of 100 MB: the connection must be closed before its end
 *	half	half a line, and then nothing; stays for 2 s
 *	deaf	asks for the metrics again and again and never reads: must be
 *		closed
 *	junk	lines that are no requests: each must be answered with an error
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LONG_BYTES (100u << 20)
#define DEAF_REQUESTS 1000000u

static int fd;

/* False when the daemon has closed the connection. */
static int put(const char *data, size_t len)
{
	ssize_t n;

	while (len) {
		n = send(fd, data, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return 0;
		data += n;
		len -= (size_t)n;
	}
	return 1;
}

static int send_long(void)
{
	static char piece[1 << 20];
	unsigned sent;

	memset(piece, 'x', sizeof(piece));
	for (sent = 0; sent < LONG_BYTES; sent += sizeof(piece))
		if (!put(piece, sizeof(piece)))
			return 0;
	fputs("the daemon took a line of 100 MB\n", stderr);
	return 1;
}

static int send_half(void)
{
	static const char half[] = "{\"jsonrpc\":\"2.0\",\"id\":1,";

	if (!put(half, sizeof(half) - 1))
		return 1;
	sleep(2);
	return 0;
}

static int be_deaf(void)
{
	static const char request[] =
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"metrics\"}\n";
	unsigned i;

	for (i = 0; i < DEAF_REQUESTS; i++)
		if (!put(request, sizeof(request) - 1))
			return 0;
	fputs("the daemon keeps answers for ever\n", stderr);
	return 1;
}

static int send_junk(void)
{
	static const char *const lines[] = {
		"junk\n",
		"[]\n",
		"{}\n",
		"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"metrics\"}\n",
		"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"metrics\"}\n",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}\n",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"no\"}\n",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"snapshot.status\"}"
		"\n",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"snapshot.start\","
		"\"params\":{\"pid\":-1,\"output\":\"/x\"}}\n",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"snapshot.start\","
		"\"params\":{\"pid\":1,\"output\":[\"/x\"]}}\n",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"snapshot.start\","
		"\"params\":{\"ranges\":[7]}}\n",
		"\xff\xfe\n",
	};
	char *line = NULL;
	size_t room = 0, i;
	FILE *in = fdopen(fd, "r");

	for (i = 0; in && i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (!put(lines[i], strlen(lines[i])) ||
		    getline(&line, &room, in) <= 0 ||
		    !strstr(line, "\"error\"")) {
			fprintf(stderr, "no error for %s", lines[i]);
			return 1;
		}
	}
	free(line);
	return !in;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} modes[] = {{"long", send_long},
		     {"half", send_half},
		     {"deaf", be_deaf},
		     {"junk", send_junk}};
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	unsigned i;

	if (argc != 3)
		return 2;
	snprintf(to.sun_path, sizeof(to.sun_path), "%s", argv[1]);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to))) {
		perror("hostile");
		return 2;
	}
	for (i = 0; i < 4; i++)
		if (!strcmp(modes[i].name, argv[2]))
			return modes[i].run();
	return 2;
}
