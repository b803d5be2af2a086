# PTX of kernels and what executes it, for the tests of this folder and for `./run machine-code --execute`.
include_guard(GLOBAL)

# The compiler wants CUDA's mathematical functions in the folders of a CUDA tool kit: an installed one, or a wheel.
find_file(NULLSCOPE_LIBDEVICE libdevice.10.bc PATHS "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" /usr/local/cuda
          PATH_SUFFIXES nvvm/libdevice NO_DEFAULT_PATH)
if(NOT NULLSCOPE_LIBDEVICE)
  include("${PROJECT_SOURCE_DIR}/lib/cmake/oneapi.cmake")  # where wheels are kept, and what fetches them
  set(nvvm_version 13.0.88)
  set(nvvm_wheels "${nullscope_cache}/nvidia-nvvm-${nvvm_version}")
  execute_process(COMMAND "${CMAKE_COMMAND}" "-DPREFIX=${nvvm_wheels}" "-DWHEELS=nvidia-nvvm==${nvvm_version}" "-DNOTE=160 MB"
                          -P "${nullscope_provision_script}" COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB_RECURSE found "${nvvm_wheels}/lib/libdevice.10.bc")
  set(NULLSCOPE_LIBDEVICE "${found}" CACHE FILEPATH "CUDA's mathematical functions" FORCE)
endif()
set(cuda_folder "${PROJECT_BINARY_DIR}/cuda")
file(MAKE_DIRECTORY "${cuda_folder}/bin" "${cuda_folder}/include" "${cuda_folder}/nvvm/libdevice")
file(CREATE_LINK "${NULLSCOPE_LIBDEVICE}" "${cuda_folder}/nvvm/libdevice/libdevice.10.bc" SYMBOLIC)

set(machine_code "${PROJECT_SOURCE_DIR}/bench/machine_code")
add_executable(ptx_compiler "${machine_code}/ptx_compiler.cpp")
target_link_libraries(ptx_compiler PRIVATE ${CMAKE_DL_LIBS})
target_compile_options(ptx_compiler PRIVATE -Wall -Wextra -Wpedantic)  # without sanitizers, which take open64 too
target_compile_definitions(ptx_compiler PRIVATE NULLSCOPE_SYCL_JIT="${NULLSCOPE_ONEAPI_LIBRARY_FOLDER}/libsycl-jit.so")
set_target_properties(ptx_compiler PROPERTIES ENABLE_EXPORTS ON)  # the compiler's library finds the program's open64

add_library(nullscope_ptx_code STATIC "${machine_code}/gpu_source.cpp" "${machine_code}/ptx_code.cpp")
target_include_directories(nullscope_ptx_code PUBLIC "${PROJECT_SOURCE_DIR}")
nullscope_program(nullscope_ptx_code)
target_compile_definitions(nullscope_ptx_code PRIVATE NULLSCOPE_PTX_COMPILER="$<TARGET_FILE:ptx_compiler>"
                                                      NULLSCOPE_CUDA_FOLDER="${cuda_folder}")
add_dependencies(nullscope_ptx_code ptx_compiler)

# The interpreter uses the host's vectors, and no operation of it may be fused or reordered.
set(ptx "${PROJECT_SOURCE_DIR}/tests/gpu/ptx")
file(GLOB interpreter CONFIGURE_DEPENDS "${ptx}/run_*.cpp")
add_library(nullscope_ptx STATIC ${interpreter} "${ptx}/module.cpp" "${ptx}/build.cpp" "${ptx}/machine.cpp")
target_include_directories(nullscope_ptx PUBLIC "${PROJECT_SOURCE_DIR}")
target_link_libraries(nullscope_ptx PRIVATE nullscope_options)
target_compile_options(nullscope_ptx PRIVATE -O3 -march=native -ffp-contract=off -frounding-math -fno-math-errno)

add_library(nullscope_ptx_runner STATIC "${ptx}/ptx_runner.cpp")
nullscope_program(nullscope_ptx_runner)
target_link_libraries(nullscope_ptx_runner PUBLIC nullscope_ptx nullscope_ptx_code)
