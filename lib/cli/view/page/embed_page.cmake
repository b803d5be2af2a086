# Writes a C++ source that holds the page of `nullscope view` as text, with its style and scripts in their places:
#   cmake -DOUTPUT=<file.cpp> -DPAGE=<page.html> -DSTYLE=<page.css> -DSCRIPTS="<a.js>;<b.js>;..." -P embed_page.cmake
# The source defines `std::string_view nullscope::cli::page_template()`. The data come where the page says @DATA@.

cmake_minimum_required(VERSION 3.25)
file(READ "${PAGE}" page)
file(READ "${STYLE}" style)
set(script "")
foreach(path IN LISTS SCRIPTS)
  file(READ "${path}" content)
  string(APPEND script "${content}\n")
endforeach()
string(REPLACE "@STYLE@\n" "${style}" page "${page}")
string(REPLACE "@SCRIPT@\n" "${script}" page "${page}")
file(WRITE "${OUTPUT}" "#include <string_view>\n\nnamespace nullscope::cli {\n\n"
     "std::string_view page_template() { return R\"embedded(${page})embedded\"; }\n\n}  // namespace nullscope::cli\n")
