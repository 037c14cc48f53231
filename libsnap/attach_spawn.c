// SPDX-License-Identifier: MIT
/* Starts the helper process and waits for its end. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach_internal.h"
#include "attach_sys.h"
#include "sys.h"

int attach_spawn(struct attach *a)
{
	sigset_t all, old;
	int pair[2], err;
	pid_t pid;

	if (a->helper)
		return 0;
	err = sys_socketpair(SOCK_SEQPACKET, pair);
	if (err)
		return error_sys(err, SNAP_FAILURE_INTERNAL,
				 "cannot make a socket for the helper");
	/* Blocked over the fork: no handler of the program runs in the copy. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = sys_fork_quiet();
	if (pid == 0)
		attach_helper_run(a, pair[1]);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	sys_close(pair[1]);
	if (pid < 0) {
		sys_close(pair[0]);
		return error_sys(pid, SNAP_FAILURE_INTERNAL,
				 "cannot start the helper");
	}
	a->helper = pid;
	a->sock = pair[0];
	return 0;
}

void attach_reap(struct attach *a, bool kill)
{
	if (!a->helper)
		return;
	if (kill)
		sys_kill(a->helper, SIGKILL);
	/* Also where a fork of the program has a copy of the descriptor. */
	sys_shutdown(a->sock);
	sys_close(a->sock);
	while (sys_waitpid(a->helper, NULL, __WALL) == -EINTR)
		;
	a->helper = 0;
	a->sock = -1;
}
