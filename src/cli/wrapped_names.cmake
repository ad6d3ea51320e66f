# SPDX-License-Identifier: MIT
# cmake -D MAP=preload.map -D OUT=wrapped_names.c -P wrapped_names.cmake
# The names that a version script exports, as a table for `tundish doctor`.
file(READ ${MAP} text)
string(REGEX REPLACE "/[*]([^*]|[*][^/])*[*]/" " " text "${text}")
if(NOT text MATCHES "global:(.*)local:")
  message(FATAL_ERROR "${MAP}: no names between global: and local:")
endif()
string(REGEX MATCHALL "[A-Za-z_][A-Za-z_0-9]*" names "${CMAKE_MATCH_1}")
list(FILTER names EXCLUDE REGEX "^tundish_") # our own
list(LENGTH names count)
list(TRANSFORM names REPLACE "(.+)" "    \"\\1\",\n")
string(JOIN "" names ${names})
file(WRITE ${OUT} "/* From ${MAP}. */\n#include \"cli/doctor.h\"\n\n\
const char *const doctor_wrapped_names[] = {\n${names}};\nconst size_t doctor_wrapped_count = ${count};\n")
