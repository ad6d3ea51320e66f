#!/bin/bash
# SPDX-License-Identifier: MIT
# Every C file looks as .clang-format says.
set -u -o pipefail
command -v clang-format >/dev/null || { echo "missing here: clang-format"; exit 77; }
cd "$KIT_SOURCE" || exit 1
find include src preload tests bench -name '*.[ch]' -print0 2>/dev/null |
    xargs -0 -r clang-format --dry-run -Werror
