// SPDX-License-Identifier: MIT
// The library from C++: the header's names have C linkage.
#include <cstdio>
#include <libsnap.h>
#include <memory>

int main()
{
	snap_options opts{};
	opts.size = sizeof(opts);

	snap *raw = nullptr;
	if (snap_create(&raw, &opts) < 0)
		return 1;
	std::unique_ptr<snap, decltype(&snap_destroy)> s(raw, snap_destroy);
	if (snap_state(s.get()) != SNAP_STATE_NEW)
		return 2;
	std::printf("libsnap %s\n", snap_version());
	return 0;
}
