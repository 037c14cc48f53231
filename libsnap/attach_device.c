// SPDX-License-Identifier: MIT
/*
 * A userfaultfd made by a target that may not call userfaultfd(2): our open
 * /dev/userfaultfd is passed into it by a datagram that a socket of the target
 * sends to itself.
 *
 * The socket is the target's, so that the target's own namespaces and security
 * label are those that count, and it has no name in any file system.  We take
 * it over for the one moment of binding and sending; the target receives.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "attach_internal.h"
#include "attach_sys.h"
#include "sys.h"
#include "util/util.h"

#ifndef USERFAULTFD_IOC_NEW /* Linux 6.1 */
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

/* What recvmsg() needs, at the start of a scratch page in the target. */
struct scratch {
	struct msghdr msg;
	struct iovec iov;
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	char payload[8];
};

static int send_to_itself(int sock, int device)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(addr);
	struct scratch s = {0};
	struct cmsghdr *c;
	ssize_t n;

	/* Nothing but the family: the kernel gives an abstract name. */
	if (bind(sock, (struct sockaddr *)&addr, sizeof(sa_family_t)) ||
	    getsockname(sock, (struct sockaddr *)&addr, &len))
		return -errno;
	s.iov = (struct iovec){s.payload, 1};
	s.msg = (struct msghdr){
		.msg_name = &addr,
		.msg_namelen = len,
		.msg_iov = &s.iov,
		.msg_iovlen = 1,
		.msg_control = s.control.bytes,
		.msg_controllen = sizeof(s.control.bytes),
	};
	c = CMSG_FIRSTHDR(&s.msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &device, sizeof(device));
	n = sys_sendmsg(sock, &s.msg, MSG_DONTWAIT);
	return n < 0 ? (int)n : 0;
}

static int write_scratch(const struct injection *in, uint64_t page)
{
	struct scratch s = {
		.msg =
			{
				.msg_iov =
					(void *)(page +
						 offsetof(struct scratch, iov)),
				.msg_iovlen = 1,
				.msg_control =
					(void *)(page + offsetof(struct scratch,
								 control)),
				.msg_controllen = sizeof(s.control),
			},
		.iov = {(void *)(page + offsetof(struct scratch, payload)), 1},
	};
	struct iovec local = {&s, sizeof(s)};
	struct iovec remote = {(void *)page, sizeof(s)};
	ssize_t n =
		sys_process_vm_writev(in->thread->tid, &local, 1, &remote, 1);

	if (n < 0)
		return (int)n;
	return n == sizeof(s) ? 0 : -EFAULT;
}

/* The number under which the target has the device now, or -errno. */
static int receive_device(struct injection *in, int sock, uint64_t page)
{
	struct scratch s;
	int64_t n = INJECT(in, SYS_recvmsg, (uint64_t)sock, page,
			   MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int fd;

	if (n < 0)
		return (int)n;
	if (sys_pread(in->helper->target->mem_fd, &s, sizeof(s), page) !=
	    sizeof(s))
		return -EFAULT;
	/* No room in its table: the kernel delivers the byte without it. */
	if (s.msg.msg_flags & MSG_CTRUNC)
		return -EMFILE;
	memcpy(&fd, s.control.bytes + CMSG_LEN(0), sizeof(fd));
	return fd;
}

static int64_t pass_and_create(struct injection *in, int sock, uint64_t page,
			       int device)
{
	int ours = inject_steal_fd(in, sock);
	int64_t uffd;
	int err, fd;

	if (ours < 0)
		return ours;
	err = send_to_itself(ours, device);
	sys_close(ours);
	if (!err)
		err = write_scratch(in, page);
	if (err)
		return err;
	fd = receive_device(in, sock, page);
	if (fd < 0)
		return fd;
	uffd = INJECT(in, SYS_ioctl, (uint64_t)fd, USERFAULTFD_IOC_NEW,
		      O_CLOEXEC | O_NONBLOCK);
	INJECT(in, SYS_close, (uint64_t)fd);
	return uffd;
}

int64_t attach_uffd_by_device(struct injection *in, int device)
{
	int64_t page, sock, uffd;

	page = INJECT(in, SYS_mmap, 0, PAGE_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, ~UINT64_C(0));
	if (page < 0)
		return page;
	sock = INJECT(in, SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC);
	uffd = sock;
	if (sock >= 0) {
		uffd = pass_and_create(in, (int)sock, (uint64_t)page, device);
		INJECT(in, SYS_close, (uint64_t)sock);
	}
	INJECT(in, SYS_munmap, (uint64_t)page, PAGE_BYTES);
	return uffd;
}
