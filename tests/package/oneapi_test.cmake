# How the build finds oneAPI, among stand-ins: without oneMKL if that is not wanted, and why wheels were not installed.
#   cmake -DSOURCE=<lib/cmake> -DWORK=<scratch folder> -DCOMPILER=<C++ compiler> -P oneapi_test.cmake

file(REMOVE_RECURSE "${WORK}")

# Two oneAPIs of empty files: the SYCL runtime alone, and with oneMKL.
foreach(root runtime whole)
  file(WRITE "${WORK}/${root}/include/sycl/sycl.hpp" "")
  file(WRITE "${WORK}/${root}/include/sycl/version.hpp" "#define __LIBSYCL_MAJOR_VERSION 99\n")
  file(WRITE "${WORK}/${root}/lib/libsycl.so" "")
endforeach()
file(WRITE "${WORK}/whole/include/oneapi/mkl/blas.hpp" "")
foreach(library mkl_sycl_blas mkl_intel_ilp64 mkl_tbb_thread mkl_core tbb)
  file(WRITE "${WORK}/whole/lib/lib${library}.so" "")
endforeach()

# Prints which targets there are.
file(WRITE "${WORK}/project/CMakeLists.txt" [[
cmake_minimum_required(VERSION 3.25)
project(find_oneapi LANGUAGES CXX)
include("${SOURCE}/oneapi.cmake")
nullscope_find_oneapi()
foreach(target sycl_runtime onemkl)
  if(TARGET nullscope::${target})
    message(STATUS "target ${target}")
  endif()
endforeach()
]])

function(expect_targets root wants_onemkl)
  execute_process(COMMAND "${CMAKE_COMMAND}" -G Ninja -S "${WORK}/project" -B "${WORK}/build" --fresh "-DSOURCE=${SOURCE}"
                          "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DNULLSCOPE_ONEAPI_ROOT=${WORK}/${root}"
                          -DNULLSCOPE_ONEMKL=${wants_onemkl}
                  OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "target [a-z_]+" found "${output}")
  list(TRANSFORM found REPLACE "target " "")
  if(NOT "${found}" STREQUAL "${ARGN}")
    message(SEND_ERROR "in ${root} with NULLSCOPE_ONEMKL=${wants_onemkl}: found \"${found}\", not \"${ARGN}\"")
  endif()
endfunction()

expect_targets(whole ON sycl_runtime onemkl)
expect_targets(whole OFF sycl_runtime)
expect_targets(runtime ON)
expect_targets(runtime OFF sycl_runtime)

# python3 -m venv gives its reasons on stdout.
file(WRITE "${WORK}/tools/python3" "#!/bin/sh\necho the reason\nexit 1\n")
file(CHMOD "${WORK}/tools/python3" PERMISSIONS OWNER_READ OWNER_EXECUTE)
execute_process(COMMAND "${CMAKE_COMMAND}" -E env "PATH=${WORK}/tools:$ENV{PATH}" "${CMAKE_COMMAND}"
                        "-DPREFIX=${WORK}/cache/wheels" -DWHEELS=none==1 -P "${SOURCE}/provision.cmake"
                RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE complaint)
if(result EQUAL 0 OR NOT complaint MATCHES "python3 -m venv failed.*the reason")
  message(SEND_ERROR "provision.cmake ended with ${result} and complained:\n${complaint}")
endif()
file(REMOVE_RECURSE "${WORK}")
