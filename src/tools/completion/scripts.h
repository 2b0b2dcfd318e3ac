// The completion scripts of packaging/completion/, as text. CMakeLists.txt makes the source.
#pragma once

namespace rrdma::tools {

extern const char* const kBashScript;
extern const char* const kZshScript;
extern const char* const kFishScript;

}  // namespace rrdma::tools
