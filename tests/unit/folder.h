// folder.h -- a folder that goes when the test does
#pragma once
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "tests/unit/support.h"

namespace mt::test {

/// Made again for each; name / "file" is a path in it.
struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/mtorch_test.XXXXXX";
    REQUIRE(mkdtemp(name));
    path = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() {
    std::error_code gone;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all, gone);
    std::filesystem::remove_all(path, gone);
  }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
  int files() const {
    using std::filesystem::directory_iterator;
    return int(std::distance(directory_iterator(path), directory_iterator()));
  }
};

}  // namespace mt::test
