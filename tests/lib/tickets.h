/* SPDX-License-Identifier: MIT */
/*
 * Guest RAM whose contents at any instant tell which instant it was.
 *
 * How it works.  The first page holds a counter.  Each writer takes the next
 * ticket from it and writes the ticket's number to the word that belongs to it:
 * tickets go through the words in a fixed order, again and again.  At one
 * instant every ticket below the counter is in its word, but for those that a
 * writer has taken and not written yet, one a writer, where an older one is.  A page from another
 * instant has tickets that are too old or too new, hundreds of them.
 */
#ifndef TEST_TICKETS_H
#define TEST_TICKETS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/** Take and write tickets until *@stop.  Any number of threads. */
void tickets_write(uint8_t *ram, size_t len, const _Atomic uint32_t *stop,
		   unsigned nap_us);

/** Words of @ram that are not what they should be at its one instant, those
 * that at most @writers writers may be about to write not counted: 0. */
uint64_t tickets_wrong(const uint8_t *ram, size_t len, unsigned writers);

/** How many have been taken. */
uint64_t tickets_taken(const uint8_t *ram);

#endif
