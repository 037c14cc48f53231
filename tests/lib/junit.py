#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts CTest's JUnit report: prints 'PASSED FAILED SKIPPED' on standard
output, and on standard error each failed test and each skipped one with the
reason that it printed."""

import sys
import xml.etree.ElementTree as ET

CMOCKA = "[  SKIPPED ] "


def reasons(case):
    """What a test says of what it skipped, each once, in order."""
    out = (case.findtext("system-out") or "").splitlines()
    said = [l.split("skipped: ", 1)[1] for l in out if "skipped: " in l]
    if not said:
        tests = [l[len(CMOCKA):] for l in out if l.startswith(CMOCKA)]
        said = [t for t in tests if not t.endswith("test(s), listed below:")]
    return list(dict.fromkeys(said))


def main(report):
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for case in ET.parse(report).getroot().iter("testcase"):
        name = case.get("name")
        said = "; ".join(reasons(case))
        if case.get("status") == "run":
            outcome = "passed"
            if said:
                print(f"partly skipped: {name}: {said}", file=sys.stderr)
        elif case.find("skipped") is not None and (
                case.find("skipped").get("message") or ""
        ).startswith("SKIP"):
            outcome = "skipped"
            print(f"skipped: {name}: {said or 'gave no reason'}",
                  file=sys.stderr)
        else:
            # Also "not run": its program is missing.
            outcome = "failed"
            print(f"failed: {name}", file=sys.stderr)
        count[outcome] += 1
    print(*count.values())


if __name__ == "__main__":
    main(sys.argv[1])
