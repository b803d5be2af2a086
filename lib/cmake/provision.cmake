# Installs pinned wheels from PyPI into one folder of the user's cache, once for all build trees:
#   cmake -DPREFIX=<folder> -DWHEELS="<name==version>;..." [-DNOTE=<what it costs, for the user>] -P provision.cmake
# The wheels land in a staging folder beside PREFIX that is renamed at the end, so PREFIX is either whole or absent; a
# lock makes a second run wait for the first instead of installing again.

cmake_minimum_required(VERSION 3.25)

foreach(required PREFIX WHEELS)
  if(NOT ${required})
    message(FATAL_ERROR "provision.cmake: -D${required}=... is missing")
  endif()
endforeach()

if(NOT IS_ABSOLUTE "${PREFIX}")
  message(FATAL_ERROR "no folder to install ${WHEELS} into: neither XDG_CACHE_HOME nor HOME names one")
endif()
cmake_path(GET PREFIX PARENT_PATH cache_folder)
file(MAKE_DIRECTORY "${cache_folder}")
file(LOCK "${PREFIX}.lock" RESULT_VARIABLE lock_result)
if(NOT lock_result EQUAL 0)
  message(FATAL_ERROR "cannot lock ${PREFIX}.lock: ${lock_result}")
endif()
if(EXISTS "${PREFIX}")
  return()
endif()

set(staging "${PREFIX}.staging")
file(REMOVE_RECURSE "${staging}")

function(run_step what)
  # One variable for both: python3 -m venv gives its reasons on stdout.
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE log ERROR_VARIABLE log)
  if(NOT result EQUAL 0)
    file(REMOVE_RECURSE "${staging}")
    message(FATAL_ERROR "${what} failed (${result}):\n${log}")
  endif()
endfunction()

list(JOIN WHEELS ", " wheel_text)
if(NOTE)
  string(PREPEND NOTE "; ")
endif()
message(STATUS "Installing ${wheel_text} into ${PREFIX} (once${NOTE})")
find_program(PYTHON3 python3 REQUIRED)
run_step("python3 -m venv" "${PYTHON3}" -m venv "${staging}")
run_step("pip install" "${staging}/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir ${WHEELS})
file(RENAME "${staging}" "${PREFIX}")
