# The quick start of the README is the sample that it names, and prints what the README says:
#   cmake -DSOURCE=<project> -DPROGRAM=<quick_start> -P readme_test.cmake

# The indented block that follows `marker` in the README, without its indentation.
function(block_after marker result)
  file(READ "${SOURCE}/README.md" readme)
  string(FIND "${readme}" "${marker}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "the README has no line \"${marker}\"")
  endif()
  string(LENGTH "${marker}" length)
  math(EXPR place "${place} + ${length}")
  string(SUBSTRING "${readme}" ${place} -1 rest)
  string(REGEX MATCH "^(\n|    [^\n]*\n)+" block "${rest}")
  string(REPLACE "\n    " "\n" block "${block}")
  string(STRIP "${block}" block)
  set(${result} "${block}" PARENT_SCOPE)
endfunction()

function(expect_same what shown is)
  string(STRIP "${is}" is)
  if(NOT shown STREQUAL is)
    message(FATAL_ERROR "the README shows another ${what}:\n${shown}\n\ninstead of\n\n${is}")
  endif()
endfunction()

file(READ "${SOURCE}/samples/quick_start.cpp" sample)
string(REGEX REPLACE "^(///[^\n]*\n)+" "" sample "${sample}")
block_after("[samples/quick_start.cpp](samples/quick_start.cpp):\n" shown)
expect_same("quick start" "${shown}" "${sample}")

execute_process(COMMAND "${PROGRAM}" OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
block_after("\nIt prints\n" shown)
expect_same("output" "${shown}" "${output}")
