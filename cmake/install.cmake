# What `cmake --install` and `cpack` install in addition to programs and libraries: headers, files by
# which other builds find Rejoin, man pages, completions, a modulefile, the Python module, and
# documents. All of it can be moved to another directory.
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/ DESTINATION include/rejoin)
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md DESTINATION share/doc/rejoin)
# Files to which the documents link.
install(FILES src/recovery/PROTOCOL.md src/recovery/DIRECT.md src/recovery/NODES.md
        DESTINATION share/doc/rejoin/src/recovery)
install(FILES src/libc_recording/observation_log.h DESTINATION share/doc/rejoin/src/libc_recording)
install(FILES tests/hostile/README.md DESTINATION share/doc/rejoin/tests/hostile)
install(DIRECTORY docs/ DESTINATION share/doc/rejoin/docs)
install(DIRECTORY examples DESTINATION share/doc/rejoin PATTERN __pycache__ EXCLUDE)
install(FILES cmake/completion.bash DESTINATION share/bash-completion/completions RENAME ftrun)
install(FILES cmake/completion.zsh DESTINATION share/zsh/site-functions RENAME _ftrun)
install(FILES cmake/completion.zsh DESTINATION share/zsh/vendor-completions RENAME _ftrun)  # Debian's
install(FILES cmake/completion.fish DESTINATION share/fish/vendor_completions.d RENAME ftrun.fish)
# The directory that Debian's Python searches in /usr.
install(DIRECTORY python/rabit DESTINATION lib/python3/dist-packages PATTERN __pycache__ EXCLUDE)

# The names of other MPIs, for modules and for CMake's FindMPI with MPI_HOME.
configure_file(cmake/modulefile.in ${CMAKE_BINARY_DIR}/installed/modulefile @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/installed/modulefile DESTINATION share/modulefiles/rejoin
        RENAME ${PROJECT_VERSION})
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/installed/bin)
foreach(pair mpirun=ftrun mpiexec=ftrun mpicc=ftmpicc mpicxx=ftmpicxx mpic++=ftmpicxx
             mpifort=ftmpifort mpif77=ftmpifort mpif90=ftmpifort)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 program)
  file(CREATE_LINK ../../../bin/${program} ${CMAKE_BINARY_DIR}/installed/bin/${name} SYMBOLIC)
  install(FILES ${CMAKE_BINARY_DIR}/installed/bin/${name} DESTINATION ${REJOIN_LIBRARIES}/bin)
endforeach()

# Open MPI's headers are needed to compile programs.
execute_process(COMMAND ${MPICC_OPENMPI} --showme:incdirs OUTPUT_VARIABLE REJOIN_MPI_INCLUDE_DIRS
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE " " " -I" mpi_include_flags "-I${REJOIN_MPI_INCLUDE_DIRS}")
string(REPLACE " " ";" REJOIN_MPI_INCLUDE_DIRS "${REJOIN_MPI_INCLUDE_DIRS}")
configure_file(cmake/rejoin.pc.in ${CMAKE_BINARY_DIR}/installed/rejoin.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/installed/rejoin.pc DESTINATION lib/pkgconfig)
configure_file(cmake/RejoinConfig.cmake.in ${CMAKE_BINARY_DIR}/installed/RejoinConfig.cmake @ONLY)
include(CMakePackageConfigHelpers)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/installed/RejoinConfigVersion.cmake
                                 COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_BINARY_DIR}/installed/RejoinConfig.cmake
              ${CMAKE_BINARY_DIR}/installed/RejoinConfigVersion.cmake
        DESTINATION lib/cmake/Rejoin)

# Man pages are made from the output of -h.
find_program(HELP2MAN help2man)
if(HELP2MAN)
  function(add_man_page name what)
    set(page ${CMAKE_BINARY_DIR}/installed/${name}.1)
    add_custom_command(
      OUTPUT ${page}
      COMMAND ${HELP2MAN} --no-info "--name=${what}" --help-option=-h
              "--version-string=${PROJECT_VERSION}" --output=${page} ${CMAKE_BINARY_DIR}/bin/${name}
      DEPENDS ${ARGN}
      VERBATIM)
    install(FILES ${page} DESTINATION share/man/man1)
    set(man_pages ${man_pages} ${page} PARENT_SCOPE)
  endfunction()
  add_man_page(ftrun "run an MPI program and restart ranks that die" ftrun)
  add_man_page(ftmpicc "compile C programs for Rejoin" ${CMAKE_BINARY_DIR}/bin/ftmpicc)
  add_man_page(ftmpicxx "compile C++ programs for Rejoin" ${CMAKE_BINARY_DIR}/bin/ftmpicxx)
  add_man_page(ftmpifort "compile Fortran programs for Rejoin" ${CMAKE_BINARY_DIR}/bin/ftmpifort)
  add_custom_target(man_pages ALL DEPENDS ${man_pages})
else()
  message(STATUS "No man pages: help2man is missing (apt-get install help2man)")
endif()

# cpack -G DEB
set(CPACK_PACKAGE_NAME rejoin)
set(CPACK_PACKAGE_VENDOR "Rejoin")
set(CPACK_PACKAGE_CONTACT "Rejoin maintainers <maintainers@rejoin.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "MPI library and launcher that restart single ranks")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= 2.36), libhwloc15, libdw1, libssl3, libstdc++6")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libopenmpi-dev, elfutils | gdb")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "libfabric1")
set(CPACK_STRIP_FILES ON)
include(CPack)
