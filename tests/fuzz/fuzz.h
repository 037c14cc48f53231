/* SPDX-License-Identifier: MIT */
/* What the fuzz target, its replay and the corpus' generator share. */
#ifndef TEST_FUZZ_H
#define TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/** An image is mostly padding, so an input has only the first FUZZ_CHUNK bytes
 * of each block of the image; the rest of a block is zero. */
#define FUZZ_CHUNK 512u
#define FUZZ_BLOCK 4096u
#define FUZZ_INPUT_MAX (FUZZ_CHUNK * 256u)

/** What libFuzzer calls.  Ends the program when the read side contradicts
 * itself. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/** Open and verify an input as it is: 0 or -errno. */
int fuzz_try(const uint8_t *data, size_t size);

/**
 * Make every checksum of an image right that can be found, so that a change
 * is not just caught by the first checksum.  Also corrects what the index says
 * of the frames' checksums.
 */
void fuzz_reseal(uint8_t *image, size_t len);

#endif
