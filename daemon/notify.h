/* SPDX-License-Identifier: MIT */
/* Tells systemd how the daemon is: sd_notify(3), its protocol. */
#ifndef SNAPD_NOTIFY_H
#define SNAPD_NOTIFY_H

/** Send @state, such as "READY=1", where NOTIFY_SOCKET says; else nothing. */
void notify_systemd(const char *state);

#endif
