# SPDX-License-Identifier: MIT
# What is installed and where, for people (cmake --install), for other builds (pkg-config, find_package) and for
# Debian (cpack -G DEB).
include(CMakePackageConfigHelpers)

set(cmakedir ${CMAKE_INSTALL_LIBDIR}/cmake/tundish)
set(pkgconfigdir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

function(tundish_install_file FILE DESTINATION)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "RENAME" "")
  if(arg_RENAME)
    install(FILES ${PROJECT_SOURCE_DIR}/${FILE} DESTINATION ${DESTINATION} RENAME ${arg_RENAME})
  else()
    install(FILES ${PROJECT_SOURCE_DIR}/${FILE} DESTINATION ${DESTINATION})
  endif()
endfunction()

install(TARGETS tundish tundish_static EXPORT tundish)
foreach(target tundish_cli tundish_preload)
  if(TARGET ${target})
    install(TARGETS ${target} # a module has no default place
      RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()

tundish_install_file(include/tundish/tundish.h ${CMAKE_INSTALL_INCLUDEDIR}/tundish)
tundish_install_file(include/tundish/tundish.3 ${CMAKE_INSTALL_MANDIR}/man3)
tundish_install_file(src/cli/tundish.1 ${CMAKE_INSTALL_MANDIR}/man1)
tundish_install_file(src/policy/tundish.conf.5 ${CMAKE_INSTALL_MANDIR}/man5)
tundish_install_file(preload/libtundish-preload.7 ${CMAKE_INSTALL_MANDIR}/man7)
tundish_install_file(src/cli/completions/tundish.bash
  ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME tundish)
tundish_install_file(src/cli/completions/_tundish ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
foreach(example basic epoll unfair_scheduling)
  tundish_install_file(config/examples/${example}.c ${CMAKE_INSTALL_DOCDIR}/examples)
endforeach()
tundish_install_file(config/tundish.conf ${CMAKE_INSTALL_DOCDIR}/examples)
tundish_install_file(LICENSE ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
tundish_install_file(CHANGELOG.md ${CMAKE_INSTALL_DOCDIR})
tundish_install_file(README.md ${CMAKE_INSTALL_DOCDIR})

# The unit names the program with its full path, which only the installation knows: it may choose another prefix.
set(unit ${PROJECT_BINARY_DIR}/package/tundish-sidecar.service)
install(CODE "
  set(bindir \"${CMAKE_INSTALL_BINDIR}\")
  cmake_path(ABSOLUTE_PATH bindir BASE_DIRECTORY \"\${CMAKE_INSTALL_PREFIX}\")
  configure_file(\"${PROJECT_SOURCE_DIR}/config/tundish-sidecar.service.in\" \"${unit}\" @ONLY)")
install(FILES ${unit} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

# pkg-config finds the prefix from where the file lies, so that --prefix at install time works.
cmake_path(ABSOLUTE_PATH pkgconfigdir BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE from)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${from} OUTPUT_VARIABLE prefix_from_pkgconfig)
configure_file(cmake/tundish.pc.in ${PROJECT_BINARY_DIR}/package/tundish.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/tundish.pc DESTINATION ${pkgconfigdir})

configure_package_config_file(cmake/tundishConfig.cmake.in ${PROJECT_BINARY_DIR}/package/tundishConfig.cmake
  INSTALL_DESTINATION ${cmakedir})
# Below 1.0.0 a new minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/tundishConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(EXPORT tundish NAMESPACE tundish:: FILE tundishTargets.cmake DESTINATION ${cmakedir})
install(FILES
  ${PROJECT_BINARY_DIR}/package/tundishConfig.cmake
  ${PROJECT_BINARY_DIR}/package/tundishConfigVersion.cmake
  DESTINATION ${cmakedir})

if(NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tundish)
set(CPACK_PACKAGE_CONTACT "The tundish authors")
set(CPACK_PACKAGE_VENDOR "The tundish authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_SET_DESTDIR ON) # so that the prefix is the one that the files will have
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
"Limits how fast programs may send, connect or do anything else that can be
counted: unmodified ones through a preloaded library, others through a C
library. All processes that name the same bucket share its tokens, without a
daemon: the bucket is a memory-mapped file.")
include(CPack)
