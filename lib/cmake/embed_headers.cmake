# Writes a C++ source that holds headers as text, for the run-time compiler:
#   cmake -DOUTPUT=<file.cpp> -DFUNCTION=<name> -DHEADERS="<include name>=<path>;..." -P embed_headers.cmake
# The source defines `std::vector<nullscope::kernel_header> nullscope::FUNCTION()`.

set(text "#include <nullscope/core/operation.hpp>\n\nnamespace nullscope {\n\n")
string(APPEND text "std::vector<kernel_header> ${FUNCTION}() {\n  return {\n")
foreach(header IN LISTS HEADERS)
  string(REGEX MATCH "^([^=]+)=(.+)$" matched "${header}")
  set(name "${CMAKE_MATCH_1}")
  file(READ "${CMAKE_MATCH_2}" content)
  string(APPEND text "      {\"${name}\", R\"embedded(${content})embedded\"},\n")
endforeach()
string(APPEND text "  };\n}\n\n}  // namespace nullscope\n")
file(WRITE "${OUTPUT}" "${text}")
