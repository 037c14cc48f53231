// SPDX-License-Identifier: MIT
/* Binary statistics of KVM, looked up by name. */
#include "kvm_stats.h"

#include "bench.h"

#include <linux/kvm.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static size_t descriptor_bytes(const struct kvm_stats *s)
{
	return sizeof(struct kvm_stats_desc) + s->name_size;
}

void kvm_stats_open(struct kvm_stats *s, int fd)
{
	struct kvm_stats_header h;
	size_t len;

	*s = (struct kvm_stats){.fd = ioctl(fd, KVM_GET_STATS_FD, NULL)};
	if (s->fd < 0)
		return;
	if (pread(s->fd, &h, sizeof(h), 0) != sizeof(h))
		die("KVM's statistics have no header");
	s->name_size = h.name_size;
	s->count = h.num_desc;
	s->data = h.data_offset;
	len = s->count * descriptor_bytes(s);
	s->descriptors = malloc(len);
	if (!s->descriptors ||
	    pread(s->fd, s->descriptors, len, h.desc_offset) != (ssize_t)len)
		die("KVM's statistics have no descriptors");
}

void kvm_stats_close(struct kvm_stats *s)
{
	free(s->descriptors);
	if (s->fd >= 0)
		close(s->fd);
}

uint64_t kvm_stats_get(const struct kvm_stats *s, const char *name)
{
	for (uint32_t i = 0; s->fd >= 0 && i < s->count; i++) {
		const char *at = s->descriptors + i * descriptor_bytes(s);
		struct kvm_stats_desc d;
		uint64_t value;

		if (strncmp(at + sizeof(d), name, s->name_size) != 0)
			continue;
		memcpy(&d, at, sizeof(d));
		if (pread(s->fd, &value, sizeof(value), s->data + d.offset) ==
		    sizeof(value))
			return value;
	}
	return 0;
}
