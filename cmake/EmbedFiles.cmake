# Writes a C++ source that defines `asset` (apps/report/assets.h) for all files of a folder.
#   cmake -DFOLDER=<folder> -DOUTPUT=<source> -P EmbedFiles.cmake
file(GLOB files ${FOLDER}/*)
set(entries "")
foreach(path ${files})
  get_filename_component(name "${path}" NAME)
  file(READ "${path}" content)
  string(APPEND entries "    {\"${name}\", R\"asset(${content})asset\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "// Made by cmake/EmbedFiles.cmake.
#include \"report/assets.h\"

#include <map>

namespace trainer {

std::string_view asset(std::string_view name) {
  static const std::map<std::string_view, std::string_view> files = {
${entries}  };
  return files.at(name);
}

}  // namespace trainer
")
