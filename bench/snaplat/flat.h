/* SPDX-License-Identifier: MIT */
/* Where things are in the flat KVM guest: its addresses are its physical ones. */
#ifndef SNAPLAT_FLAT_H
#define SNAPLAT_FLAT_H

#define FLAT_TABLES 0x1000 /* level 4, level 3, then one a GiB */
#define FLAT_CODE 0x80000
#define FLAT_STACK_TOP 0xc0000
#define FLAT_LOW_BYTES 0x200000 /* of the memory with all these */
#define FLAT_STATION 0x200000	/* struct station */
#define FLAT_RAM 0x40000000	/* the RAM that is saved */
#define FLAT_GIB_MAX 64

#endif
