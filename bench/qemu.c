// SPDX-License-Identifier: MIT
/*
 * qemu - snapd beside QEMU's own background-snapshot.
 *
 *	qemu SNAPD BOOT-SECTOR [tcg|kvm]
 *
 * How it works.  A QEMU runs a guest (tests/guest/boot.S) that writes to 512
 * MiB of its RAM without end, each write to another page than the last.  Its
 * counter is read from outside every 100 us: the longest time without a change
 * is the longest stall, and the counts per second are the guest's speed.  The
 * same guest is saved first by snapd and then by QEMU, both to /dev/null.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define COUNTER 0x500
#define WORDS UINT64_C(0x8000000)
#define GUEST_MIB 768
#define SAMPLE_US 100
#define ROUNDS 3

struct qemu {
	pid_t pid;
	char dir[64], socket[96];
	FILE *in;
	int fd;
	uint64_t ram; /* of the guest's address 0 */
};

/* ---- QMP, as far as is needed ---- */

static json_t *qmp(struct qemu *q, const char *request)
{
	char *line = NULL;
	size_t room = 0;
	json_t *o;

	if (dprintf(q->fd, "%s\n", request) < 0)
		die("QMP: %s", strerror(errno));
	for (;;) {
		if (getline(&line, &room, q->in) <= 0)
			die("QEMU has gone");
		o = json_loads(line, 0, NULL);
		if (json_object_get(o, "error"))
			die("QEMU: %s", line);
		if (json_object_get(o, "return"))
			break;
		json_decref(o);
	}
	free(line);
	return o;
}

static void qmp_connect(struct qemu *q)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char *line = NULL;
	size_t room = 0;

	snprintf(to.sun_path, sizeof(to.sun_path), "%s", q->socket);
	q->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (unsigned i = 0;
	     connect(q->fd, (const struct sockaddr *)&to, sizeof(to)); i++) {
		if (i == 200)
			die("cannot connect to QEMU");
		usleep(20000);
	}
	q->in = fdopen(q->fd, "r");
	if (!q->in || getline(&line, &room, q->in) <= 0)
		die("QEMU does not greet");
	free(line);
	json_decref(qmp(q, "{\"execute\":\"qmp_capabilities\"}"));
}

static void find_ram(struct qemu *q)
{
	json_t *o = qmp(q, "{\"execute\":\"human-monitor-command\","
			   "\"arguments\":{\"command-line\":\"gpa2hva 0\"}}");
	const char *text = json_string_value(json_object_get(o, "return"));
	const char *at = text ? strstr(text, ") is 0x") : NULL;

	if (!at || sscanf(at, ") is 0x%" SCNx64, &q->ram) != 1)
		die("QEMU does not say where its RAM is");
	json_decref(o);
}

static void qemu_start(struct qemu *q, const char *boot, const char *accel)
{
	char drive[600], machine[64], monitor[128];

	snprintf(q->dir, sizeof(q->dir), "/tmp/bench-qemu-XXXXXX");
	if (!mkdtemp(q->dir))
		die("mkdtemp: %s", strerror(errno));
	snprintf(q->socket, sizeof(q->socket), "%s/qmp", q->dir);
	snprintf(drive, sizeof(drive), "format=raw,if=ide,snapshot=on,file=%s",
		 boot);
	snprintf(machine, sizeof(machine), "pc,accel=%s", accel);
	snprintf(monitor, sizeof(monitor), "unix:%s,server=on,wait=off",
		 q->socket);
	q->pid = fork();
	if (!q->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execlp("qemu-system-x86_64", "qemu-system-x86_64",
		       "-nodefaults", "-display", "none", "-m", "768", "-cpu",
		       strcmp(accel, "kvm") ? "qemu64" : "kvm64", "-machine",
		       machine, "-drive", drive, "-serial", "null", "-qmp",
		       monitor, (char *)NULL);
		_exit(127);
	}
	qmp_connect(q);
	find_ram(q);
}

static void qemu_end(struct qemu *q)
{
	kill(q->pid, SIGKILL);
	waitpid(q->pid, NULL, 0);
	fclose(q->in);
	unlink(q->socket);
	rmdir(q->dir);
}

/* ---- watching the guest ---- */

struct watch {
	const struct qemu *q;
	pthread_t thread;
	atomic_bool ending;
	uint32_t first, last;
	double seconds, longest;
};

static uint32_t counter(const struct qemu *q)
{
	uint32_t n = 0;
	struct iovec to = {&n, sizeof(n)};
	struct iovec from = {(void *)(uintptr_t)(q->ram + COUNTER), sizeof(n)};

	if (process_vm_readv(q->pid, &to, 1, &from, 1, 0) != sizeof(n))
		die("cannot read the guest's RAM: %s", strerror(errno));
	return n;
}

static void *watch_main(void *arg)
{
	struct watch *w = arg;
	double start = now_s(), changed = start, now;
	uint32_t n;

	w->first = w->last = counter(w->q);
	while (!atomic_load(&w->ending)) {
		usleep(SAMPLE_US);
		n = counter(w->q);
		now = now_s();
		if (n == w->last)
			continue;
		if (now - changed > w->longest)
			w->longest = now - changed;
		changed = now;
		w->last = n;
	}
	now = now_s();
	if (now - changed > w->longest)
		w->longest = now - changed;
	w->seconds = now - start;
	return NULL;
}

static void watch_start(struct watch *w, const struct qemu *q)
{
	*w = (struct watch){.q = q};
	if (pthread_create(&w->thread, NULL, watch_main, w))
		die("cannot start a thread");
}

/* Tickets a second. */
static double watch_end(struct watch *w)
{
	atomic_store(&w->ending, true);
	pthread_join(w->thread, NULL);
	return (w->last - w->first) / w->seconds;
}

/* ---- the two ---- */

static double by_snapd(const struct qemu *q, const char *snapd)
{
	double start = now_s();
	char pid[16];
	pid_t child;
	int status;

	snprintf(pid, sizeof(pid), "%d", (int)q->pid);
	child = fork();
	if (!child) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, STDOUT_FILENO);
		execl(snapd, snapd, "--pid", pid, "--output", "-", "--progress",
		      "none", "--fault-limit", "0", "--range", getenv("RANGE"),
		      (char *)NULL);
		_exit(127);
	}
	waitpid(child, &status, 0);
	if (status)
		die("snapd ended with %d", status);
	return now_s() - start;
}

static double by_qemu(struct qemu *q)
{
	double start = now_s();
	const char *status = "";
	json_t *o = NULL;

	json_decref(qmp(q, "{\"execute\":\"migrate-set-capabilities\","
			   "\"arguments\":{\"capabilities\":[{\"capability\":"
			   "\"background-snapshot\",\"state\":true}]}}"));
	json_decref(qmp(q, "{\"execute\":\"migrate-set-parameters\","
			   "\"arguments\":{\"max-bandwidth\":0}}"));
	json_decref(qmp(q, "{\"execute\":\"migrate\",\"arguments\":{\"uri\":"
			   "\"exec:cat >/dev/null\"}}"));
	while (strcmp(status, "completed") != 0) {
		json_decref(o);
		usleep(5000);
		o = qmp(q, "{\"execute\":\"query-migrate\"}");
		status = json_string_value(json_object_get(
			json_object_get(o, "return"), "status"));
		if (!status)
			status = "";
		if (!strcmp(status, "failed"))
			die("QEMU's migration failed");
	}
	json_decref(o);
	return now_s() - start;
}

struct found {
	struct series rate, stall_ms, speed;
};

static void note(struct found *f, double seconds, struct watch *w, double alone)
{
	double speed = watch_end(w);

	series_add(&f->rate, GUEST_MIB / seconds);
	series_add(&f->stall_ms, w->longest * 1e3);
	series_add(&f->speed, 100 * speed / alone);
}

static void print_found(const char *name, const struct found *f)
{
	printf("%-28s %9.0f %12.1f %12.1f\n", name, series_median(&f->rate),
	       series_median(&f->stall_ms), series_median(&f->speed));
}

int main(int argc, char **argv)
{
	const char *accel = argc == 4 ? argv[3] : "tcg";
	struct found ours = {0}, theirs = {0};
	struct qemu q = {0};
	struct watch w;
	char range[64];
	double alone;

	if (argc != 3 && argc != 4)
		die("usage: qemu SNAPD BOOT-SECTOR [tcg|kvm]");
	qemu_start(&q, argv[2], accel);
	while (counter(&q) < WORDS) /* all words have been written once */
		usleep(100000);
	snprintf(range, sizeof(range), "0x%" PRIx64 "-0x%" PRIx64, q.ram,
		 q.ram + GUEST_MIB * MIB);
	setenv("RANGE", range, 1);
	watch_start(&w, &q);
	sleep(2);
	alone = watch_end(&w);
	for (unsigned i = 0; i < ROUNDS; i++) {
		double seconds;

		watch_start(&w, &q);
		seconds = by_snapd(&q, argv[1]);
		note(&ours, seconds, &w, alone);
		sleep(1);
		watch_start(&w, &q);
		seconds = by_qemu(&q);
		note(&theirs, seconds, &w, alone);
		sleep(1);
	}
	printf("%d MiB guest under %s that writes to 512 MiB, to /dev/null, %d "
	       "rounds, medians; alone %.1f M writes/s\n\n"
	       "%-28s %9s %12s %12s\n",
	       GUEST_MIB, accel, ROUNDS, alone / 1e6, "", "MiB/s", "stall ms",
	       "speed %");
	print_found("snapd", &ours);
	print_found("QEMU background-snapshot", &theirs);
	printf("\nrate %.1f times, stall %.3f of it, speed %.1f times\n",
	       series_median(&ours.rate) / series_median(&theirs.rate),
	       series_median(&ours.stall_ms) / series_median(&theirs.stall_ms),
	       series_median(&ours.speed) / series_median(&theirs.speed));
	qemu_end(&q);
	return 0;
}
