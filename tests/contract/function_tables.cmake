# The tables of the contract test know every public function: the benchmarks' list of all kernels uses them too.
include_guard(GLOBAL)
file(GLOB function_tables CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*_functions.cpp")
add_library(nullscope_function_tables STATIC ${function_tables})
target_include_directories(nullscope_function_tables PUBLIC "${PROJECT_SOURCE_DIR}")
nullscope_program(nullscope_function_tables)
