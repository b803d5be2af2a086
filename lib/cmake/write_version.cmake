# Writes version.cpp with the commit of the moment; untouched, and so not compiled again, if nothing changed.
#   cmake -DTEMPLATE=<version.cpp.in> -DOUTPUT=<version.cpp> -DVERSION=<x.y.z> -P write_version.cmake

cmake_path(GET TEMPLATE PARENT_PATH folder)
execute_process(COMMAND git -C "${folder}" describe --always --dirty --exclude * OUTPUT_VARIABLE commit
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  set(commit unknown)
endif()
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
