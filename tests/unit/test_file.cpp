// test_file.cpp -- writing files: what is replaced, what is written through, what is refused
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <thread>

#include "engine/core/file.h"
#include "engine/io/bytes.h"
#include "engine/io/tensor_files.h"
#include "tests/unit/folder.h"
#include "tests/unit/support.h"

namespace mt::test {
namespace {

namespace fs = std::filesystem;

struct stat info(const std::string& path) {
  struct stat s {};
  REQUIRE(lstat(path.c_str(), &s) == 0);
  return s;
}
std::string text(const std::string& path) { return read_file("test", path); }
std::string error_of_write(const std::string& path, const std::string& bytes = "new") {
  const std::string said = error_of([&] { write_file("op", path, bytes); });
  return said.rfind("op: cannot write '" + path + "': ", 0) == 0
             ? said.substr(21 + path.size())
             : "not the usual sentence: " + said;
}

/// What a reader of the FIFO gets.
std::string from_fifo(const std::string& path, const std::string& bytes) {
  std::string got(bytes.size() + 10, '\0');
  std::thread reader([&] {
    const File file(open(path.c_str(), O_RDONLY));
    size_t have = 0;
    for (ssize_t n; (n = read(file.fd(), got.data() + have, got.size() - have)) > 0;)
      have += size_t(n);
    got.resize(have);
  });
  write_file("op", path, bytes);
  reader.join();
  return got;
}

}  // namespace

TEST_CASE("a new file has the usual mode, a replaced one keeps its own", "[io]") {
  const Folder folder;
  const mode_t before = umask(022);
  write_file("op", folder / "a", "one");
  CHECK(text(folder / "a") == "one");
  CHECK((info(folder / "a").st_mode & 07777) == 0644);
  for (const mode_t mode : {0600, 0666, 0755, 0200}) {
    REQUIRE(chmod((folder / "a").c_str(), mode) == 0);
    const ino_t was = info(folder / "a").st_ino;
    write_file("op", folder / "a", fmt::format("mode {:o}", unsigned(mode)));
    CHECK((info(folder / "a").st_mode & 07777) == mode);
    CHECK(info(folder / "a").st_ino != was);  // another file took the place
  }
  umask(before);
  CHECK(folder.files() == 1);
  write_file("op", folder / "empty", "");
  CHECK(info(folder / "empty").st_size == 0);
  // A namespace of users may not have these.
  if (getuid() == 0 && chown((folder / "a").c_str(), 1234, 2345) == 0) {
    write_file("op", folder / "a", "x");
    CHECK(info(folder / "a").st_uid == 1234);
    CHECK(info(folder / "a").st_gid == 2345);
  }
}

TEST_CASE("symbolic links stay, and what they mean is written", "[io]") {
  const Folder folder;
  fs::create_directory(folder / "deep");
  write_file("op", folder / "deep/real", "old");
  fs::create_symlink("deep/real", folder / "link");
  fs::create_symlink(folder / "link", folder / "twice");
  fs::create_symlink("deep/not yet", folder / "dangling");
  fs::create_symlink("nowhere/x", folder / "lost");
  fs::create_symlink("loop", folder / "loop");
  write_file("op", folder / "twice", "new");
  CHECK(text(folder / "deep/real") == "new");
  write_file("op", folder / "dangling", "made");
  CHECK(text(folder / "deep/not yet") == "made");
  for (const char* name : {"link", "twice", "dangling"})
    CHECK(S_ISLNK(info(folder / name).st_mode));
  CHECK(error_of_write(folder / "lost") ==
        fmt::format("there is no folder '{}/nowhere'", folder.path));
  CHECK(error_of_write(folder / "loop") == "Too many levels of symbolic links");
  CHECK(folder.files() == 6);
}

TEST_CASE("devices, FIFOs and the process's own descriptors are written through", "[io]") {
  const Folder folder;
  // By links: a mistake here could cost the machine its /dev/null.
  fs::create_symlink("/dev/null", folder / "null");
  fs::create_symlink("/dev/full", folder / "full");
  write_file("op", folder / "null", "gone");
  CHECK(error_of_write(folder / "full") == "No space left on device");
  for (const char* name : {"null", "full"}) CHECK(S_ISLNK(info(folder / name).st_mode));
  CHECK(S_ISCHR(info("/dev/null").st_mode));
  REQUIRE(mkfifo((folder / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("fifo", folder / "link");
  const std::string large(300000, 'x');
  CHECK(from_fifo(folder / "fifo", large) == large);
  CHECK(from_fifo(folder / "link", "small") == "small");
  CHECK(S_ISFIFO(info(folder / "fifo").st_mode));
  CHECK_NOTHROW(check_writable("op", folder / "fifo"));  // and does not wait for a reader

  const File own(open((folder / "own").c_str(), O_RDWR | O_CREAT, 0600));
  REQUIRE(own.write("first "));
  write_file("op", fmt::format("/dev/fd/{}", own.fd()), "second ");
  write_file("op", fmt::format("/proc/self/fd/{}", own.fd()), "third");
  CHECK(text(folder / "own") == "first second third");
  CHECK(error_of_write("/dev/fd/999") == "Bad file descriptor");
  const File reading(open((folder / "own").c_str(), O_RDONLY));
  CHECK(error_of_write(fmt::format("/dev/fd/{}", reading.fd())) == "it is open for reading only");
  CHECK(folder.files() == 5);
}

TEST_CASE("a reader that goes away is an error, no signal", "[io]") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  File read_end(ends[0]);
  const File write_end(ends[1]);
  REQUIRE(read_end.close());
  CHECK(error_of_write(fmt::format("/dev/fd/{}", ends[1])) == "Broken pipe");
}

// Permission bits do not bind root: what counts is that nobody may write by the mode.
TEST_CASE("read-only files and folders are refused, and nothing changes", "[io]") {
  const Folder folder;
  write_file("op", folder / "kept", "old");
  REQUIRE(chmod((folder / "kept").c_str(), 0444) == 0);
  CHECK(error_of_write(folder / "kept") == "it is read-only");
  CHECK(error_of([&] { check_writable("op", folder / "kept"); }).find("read-only") !=
        std::string::npos);
  fs::create_symlink("kept", folder / "link");
  CHECK(error_of_write(folder / "link") == "it is read-only");
  CHECK(text(folder / "kept") == "old");
  REQUIRE(chmod((folder / "kept").c_str(), 0644) == 0);
  REQUIRE(chmod(folder.path.c_str(), 0555) == 0);
  const std::string sentence = fmt::format("the folder '{}' is read-only", folder.path);
  CHECK(error_of_write(folder / "kept") == sentence);
  CHECK(error_of_write(folder / "fresh") == sentence);
  CHECK(text(folder / "kept") == "old");
  REQUIRE(chmod(folder.path.c_str(), 0755) == 0);
  CHECK(folder.files() == 2);
}

TEST_CASE("what cannot be a file is refused with its reason", "[io]") {
  const Folder folder;
  write_file("op", folder / "file", "x");
  CHECK(error_of_write(folder.path) == "it is a folder");
  CHECK(error_of_write(folder / "no/such") ==
        fmt::format("there is no folder '{}/no'", folder.path));
  CHECK(error_of_write(folder / "file/x") == "Not a directory");
  CHECK(error_of_write("") == "the path is empty");
  CHECK(error_of_write(folder / std::string(300, 'n')) == "File name too long");
  CHECK(error_of([] { write_file("op", std::string("a\0b", 3), ""); }) ==
        "op: the path contains a zero byte");
  CHECK(folder.files() == 1);
}

TEST_CASE("a full disk leaves the old file and nothing beside it", "[io]") {
  const Folder folder;
  write_file("op", folder / "a", "old");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 1000;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);  // beyond that SIGXFSZ would end the process
  const std::string said = error_of_write(folder / "a", std::string(5000, 'x'));
  setrlimit(RLIMIT_FSIZE, &before);
  CHECK(said == "File too large");
  CHECK(text(folder / "a") == "old");
  CHECK(folder.files() == 1);
  {
    FileWriter begun("op", folder / "a");
    begun.write("half");
  }
  CHECK(text(folder / "a") == "old");  // no commit
  CHECK(folder.files() == 1);
}

TEST_CASE("safetensors: each tensor has a name of its own", "[io]") {
  const Folder folder;
  const NamedTensor a{"a", zeros({2})}, metadata{"__metadata__", zeros({2})};
  const auto error_of_saving = [&](const std::vector<NamedTensor>& tensors) {
    return error_of([&] {
      write_safetensors("op", folder / "x", {tensors, {}, {}}, [](const Tensor& x) { return x; });
    });
  };
  CHECK(error_of_saving({a, a}) ==
        "op: 'a' is the name of two tensors, or of the format's metadata");
  CHECK(contains(error_of_saving({a, metadata}), "'__metadata__' is the name"));
  CHECK(folder.files() == 0);
  CHECK(error_of_saving({a}) == kNoError);
}

}  // namespace mt::test
