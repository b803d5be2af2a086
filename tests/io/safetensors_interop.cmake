# Python's safetensors package, from wheels in the user's cache, and Nullscope read each other's files.
add_executable(safetensors_interop safetensors_interop.cpp)
target_link_libraries(safetensors_interop PRIVATE nullscope::nullscope nullscope_options)
include("${PROJECT_SOURCE_DIR}/lib/cmake/oneapi.cmake")  # for the cache folder
set(python_folder "${nullscope_cache}/python-safetensors-0.8.0")
if(NOT EXISTS "${python_folder}")
  execute_process(COMMAND "${CMAKE_COMMAND}" "-DPREFIX=${python_folder}" "-DWHEELS=safetensors==0.8.0;numpy==2.3.5"
                          "-DNOTE=100 MB" -P "${nullscope_provision_script}")
endif()
set(python "${python_folder}/bin/python3")  # started by its path, which is all that a virtual environment needs
execute_process(COMMAND "${python}" -c "import numpy, safetensors" RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
if(result EQUAL 0)
  add_test(NAME safetensors_interop COMMAND "${python}" -B "${CMAKE_CURRENT_SOURCE_DIR}/safetensors_interop.py"
                                            $<TARGET_FILE:safetensors_interop>)
  set_tests_properties(safetensors_interop PROPERTIES LABELS files TIMEOUT 120)
else()
  message(WARNING "the test safetensors_interop is skipped: ${python} cannot import numpy and safetensors")
endif()
