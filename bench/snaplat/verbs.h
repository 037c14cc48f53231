/* SPDX-License-Identifier: MIT */
/* The commands; each gets its arguments from its own name on and returns the
 * program's exit code. */
#ifndef SNAPLAT_VERBS_H
#define SNAPLAT_VERBS_H

int watch_main(int argc, char **argv);
int micro_main(int argc, char **argv);
int peers_main(int argc, char **argv);

#endif
