# SPDX-License-Identifier: MIT
# Programs and libraries whose functions are hooked, and the scripts that run them. C++ only for these: a
# library that throws and unwinds is what hooks have to let through.
include(CheckLanguage)
check_language(CXX)
if(NOT CMAKE_CXX_COMPILER)
  message(STATUS "No C++ compiler: hooks are not tested in programs")
  return()
endif()
enable_language(CXX)

# As others build theirs: tundish_build is for C.
function(hooks_guest NAME TYPE)
  if(TYPE STREQUAL EXECUTABLE)
    add_executable(${NAME} ${ARGN})
  else()
    add_library(${NAME} ${TYPE} ${ARGN})
  endif()
  set_target_properties(${NAME} PROPERTIES
    CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON C_EXTENSIONS OFF
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  target_compile_definitions(${NAME} PRIVATE _GNU_SOURCE)
  target_compile_options(${NAME} PRIVATE -Wall -Wextra -Wpedantic -Wshadow)
  target_link_libraries(${NAME} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

hooks_guest(hooks_guest_library SHARED guest_lib.cc)
set_target_properties(hooks_guest_library PROPERTIES OUTPUT_NAME hooks_guest)
foreach(copy 1 2)
  hooks_guest(hooks_plugin_${copy} SHARED guest_plugin.c)
  target_compile_definitions(hooks_plugin_${copy} PRIVATE ANSWER=${copy})
  target_link_libraries(hooks_plugin_${copy} PRIVATE hooks_guest_library)
  hooks_guest(hooks_user_${copy} SHARED guest_user.c)
  target_compile_definitions(hooks_user_${copy} PRIVATE USER=user_${copy})
  target_link_libraries(hooks_user_${copy} PRIVATE hooks_plugin_${copy} hooks_guest_library)
endforeach()
hooks_guest(hooks_guest EXECUTABLE guest.cc guest_exits.cc guest_places.cc guest_loads.cc)
target_link_libraries(hooks_guest PRIVATE hooks_guest_library)
add_dependencies(hooks_guest hooks_user_1 hooks_user_2)
hooks_guest(hooks_weak EXECUTABLE guest_weak.c)

set(guests $<TARGET_FILE:hooks_guest> $<TARGET_FILE:hooks_weak>)
foreach(name guests costs mistakes)
  tundish_script(hooks_${name} test_${name}.py ARGS ${guests})
endforeach()
foreach(name limits families)
  tundish_script(hooks_${name} test_${name}.py ARGS ${guests} LABELS timing)
endforeach()
