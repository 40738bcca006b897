// hugging_face_helper.py, which the build puts into the program.
#pragma once

namespace tokenizers {

extern const char* const kHuggingFaceHelper;

}  // namespace tokenizers
