# Installs the library into a fresh prefix, builds the samples alone in another folder, and runs one:
#   cmake -DBUILD=<build tree> -DSAMPLES=<samples> -DWORK=<scratch folder> -P install_test.cmake

file(REMOVE_RECURSE "${WORK}")
file(COPY "${SAMPLES}/" DESTINATION "${WORK}/consumer")

function(step)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

step("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
step("${CMAKE_COMMAND}" -S "${WORK}/consumer" -B "${WORK}/build" -G Ninja -DCMAKE_BUILD_TYPE=Release
     "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DCMAKE_CXX_COMPILER=${COMPILER}")
step("${CMAKE_COMMAND}" --build "${WORK}/build")
execute_process(COMMAND "${WORK}/build/quick_start" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
if(NOT output STREQUAL "rank(T) = 64\ndim LN(T) = 936\ndim LN([T, 1]) = 935\n")  # as the README says
  message(FATAL_ERROR "quick_start printed:\n${output}")
endif()
step("${WORK}/prefix/bin/nullscope" devices)
file(REMOVE_RECURSE "${WORK}")
