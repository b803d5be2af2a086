# How ./run finds tool chains and what it tells CMake, among stand-ins for all of them.
#   cmake -DRUN=<the script> -DWORK=<scratch folder> -P run_test.cmake

file(REMOVE_RECURSE "${WORK}")
set(project "${WORK}/project")  # the script builds beside itself
file(COPY "${RUN}" DESTINATION "${project}")

# tool(<path> <line>...): a program of these lines.
function(tool path)
  list(JOIN ARGN "\n" lines)
  file(WRITE "${WORK}/${path}" "#!/bin/bash\n${lines}\n")
  file(CHMOD "${WORK}/${path}" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endfunction()

tool(tools/cmake "echo \"$*\" >> '${WORK}/calls'")
tool(tools/dpkg-query "echo installed")
tool(tools/nvidia-smi "exit 1")
tool(tools/rocminfo "exit 1")
tool(tools/clang++ "echo 'Debian clang version 14'")
tool(nvidia/nvidia-smi "echo 'GPU 0: NVIDIA A100-SXM4-40GB (UUID: 0)'")
tool(amd/rocminfo "echo '  Name:                    gfx90a'")
tool(acpp/acpp "exit 0")
tool(icpx/icpx "exit 0")
tool(dpcpp/bin/clang++ "echo 'clang version 21.0.0 (https://github.com/intel/llvm 0123)'")
file(WRITE "${WORK}/dpcpp/lib/libur_adapter_cuda.so" "")
file(WRITE "${WORK}/whole/include/oneapi/mkl/blas.hpp" "")

# expect(<what> PATH <folder>... [SETTINGS <variable=value>...] [ARGUMENTS <argument>...] [CALLS <call of CMake>...]
#        [ERROR <regular expression>]): without ERROR, nothing is said and the script succeeds.
function(expect what)
  cmake_parse_arguments(PARSE_ARGV 1 x "" "ERROR" "PATH;SETTINGS;ARGUMENTS;CALLS")
  list(TRANSFORM x_PATH PREPEND "${WORK}/")
  list(JOIN x_PATH ":" path)
  file(REMOVE_RECURSE "${WORK}/calls" "${project}/.build")
  execute_process(COMMAND env -u NULLSCOPE_PRESET -u NULLSCOPE_ONEAPI_ROOT "PATH=${path}:${WORK}/tools:/usr/bin:/bin" ${x_SETTINGS}
                          bash "${project}/run" ${x_ARGUMENTS}
                  RESULT_VARIABLE code OUTPUT_VARIABLE said ERROR_VARIABLE complaint)
  string(REGEX REPLACE "Setting up in [^\n]*\n" "" complaint "${complaint}")
  set(calls "")
  if(EXISTS "${WORK}/calls")
    file(STRINGS "${WORK}/calls" calls)
  endif()
  if(NOT "${calls}" STREQUAL "${x_CALLS}")
    message(SEND_ERROR "${what}: CMake was called with\n  ${calls}\nnot\n  ${x_CALLS}")
  endif()
  if((x_ERROR AND NOT complaint MATCHES "${x_ERROR}") OR (NOT x_ERROR AND NOT "${complaint}" STREQUAL ""))
    message(SEND_ERROR "${what}: complained \"${complaint}\"")
  endif()
  if(NOT x_CALLS AND code EQUAL 0)
    message(SEND_ERROR "${what}: ended with exit code 0")
  endif()
endfunction()

set(release "${project}/.build/release")
expect("options" PATH tools ARGUMENTS build -DNULLSCOPE_SYCL_FLAGS=-fsycl\ -O2 --target nullscope -DA=b
       CALLS "--preset release -DNULLSCOPE_SYCL_FLAGS=-fsycl -O2 -DA=b" "--build ${release} --target nullscope")
expect("no GPU, whatever is on the PATH" PATH dpcpp/bin acpp icpx ARGUMENTS build CALLS "--preset release" "--build ${release}")
expect("a oneAPI that is named" PATH nvidia acpp SETTINGS NULLSCOPE_ONEAPI_ROOT=${WORK}/whole ARGUMENTS build
       CALLS "--preset release -DNULLSCOPE_ONEAPI_ROOT=${WORK}/whole" "--build ${release}")
expect("one without oneMKL" PATH tools SETTINGS NULLSCOPE_ONEAPI_ROOT=${WORK}/dpcpp ARGUMENTS build
       CALLS "--preset release -DNULLSCOPE_ONEAPI_ROOT=${WORK}/dpcpp -DNULLSCOPE_ONEMKL=OFF" "--build ${release}")
expect("NVIDIA and DPC++ for it" PATH nvidia dpcpp/bin acpp ARGUMENTS build
       CALLS "--preset release -DNULLSCOPE_ONEAPI_ROOT=${WORK}/dpcpp -DNULLSCOPE_ONEMKL=OFF" "--build ${release}")
expect("AMD and DPC++ for another vendor" PATH amd dpcpp/bin acpp ARGUMENTS build
       CALLS "--preset adaptivecpp" "--build ${project}/.build/adaptivecpp")
expect("NVIDIA and AdaptiveCpp" PATH nvidia acpp ARGUMENTS build
       CALLS "--preset adaptivecpp" "--build ${project}/.build/adaptivecpp")
expect("NVIDIA and nothing for it" PATH nvidia ARGUMENTS build CALLS "--preset release" "--build ${release}"
       ERROR "run: this machine has a GPU \\(nvidia\\).*docs/devices.md")
expect("a preset that is named" PATH nvidia acpp SETTINGS NULLSCOPE_PRESET=debug ARGUMENTS build
       CALLS "--preset debug" "--build ${project}/.build/debug")
expect("icpx" PATH icpx dpcpp/bin SETTINGS NULLSCOPE_PRESET=dpcpp ARGUMENTS build
       CALLS "--preset dpcpp" "--build ${project}/.build/dpcpp")
expect("clang++ of DPC++" PATH dpcpp/bin SETTINGS NULLSCOPE_PRESET=dpcpp ARGUMENTS build
       CALLS "--preset dpcpp -DCMAKE_CXX_COMPILER=${WORK}/dpcpp/bin/clang++ -DNULLSCOPE_ONEAPI_ROOT=${WORK}/dpcpp -DNULLSCOPE_ONEMKL=OFF"
             "--build ${project}/.build/dpcpp")
expect("no DPC++" PATH tools SETTINGS NULLSCOPE_PRESET=dpcpp ARGUMENTS build ERROR "run: the preset dpcpp needs icpx or the clang")
expect("no AdaptiveCpp" PATH tools SETTINGS NULLSCOPE_PRESET=adaptivecpp ARGUMENTS build ERROR "run: the preset adaptivecpp needs acpp")
file(REMOVE_RECURSE "${WORK}")
