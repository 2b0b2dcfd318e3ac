#include "examples/verbs/options.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace examples {
namespace {

constexpr std::uint32_t kSizeMax = 1u << 30;

[[noreturn]] void show_usage(const char* program, bool is_server, bool has_device, int status) {
  std::FILE* out = status == 0 ? stdout : stderr;
  std::fprintf(out, "usage: %s [OPTIONS] %s\n", program,
               has_device ? "[SERVER-IP] [DEVICE] [TCP-PORT] [GID-INDEX]" : "[SERVER-IP] [PORT]");
  if (is_server) {
    std::fprintf(out, "  --clients N            exit after N clients; serves them concurrently (1)\n");
  } else {
    std::fprintf(out,
                 "  --mode MODE            send, write, read or atomic (send)\n"
                 "  --rounds N             number of messages (100)\n"
                 "  --size BYTES           size of a message (4096)\n");
  }
  std::fprintf(out,
               "  --events               sleep until a completion event instead of polling\n"
               "The default port is 18515.\n");
  std::exit(status);
}

bool read_number(const char* word, unsigned long max, unsigned long& value) {
  char* end = nullptr;
  value = std::strtoul(word, &end, 10);
  return *word >= '0' && *word <= '9' && *end == 0 && value <= max;
}

bool read_mode(const char* word, Mode& mode) {
  for (const Mode candidate : {Mode::kSend, Mode::kWrite, Mode::kRead, Mode::kAtomic}) {
    if (std::strcmp(word, name_of(candidate)) != 0) continue;
    mode = candidate;
    return true;
  }
  return false;
}

bool take_option(const char* name, const char* value, bool is_server, Options& options) {
  unsigned long number = 0;
  if (is_server && std::strcmp(name, "--clients") == 0 && read_number(value, 1000, number) && number > 0) {
    options.clients = static_cast<unsigned>(number);
    return true;
  }
  if (is_server) return false;
  if (std::strcmp(name, "--mode") == 0) return read_mode(value, options.mode);
  if (std::strcmp(name, "--rounds") == 0 && read_number(value, 100'000'000, number) && number > 0) {
    options.rounds = static_cast<std::uint32_t>(number);
    return true;
  }
  if (std::strcmp(name, "--size") == 0 && read_number(value, kSizeMax, number) && number > 0) {
    options.size = static_cast<std::uint32_t>(number);
    return true;
  }
  return false;
}

bool take_positions(const std::vector<const char*>& words, bool has_device, Options& options) {
  const std::size_t port_at = has_device ? 2 : 1;
  unsigned long number = 0;
  if (words.size() > (has_device ? 4u : 2u)) return false;
  if (!words.empty()) options.server = words[0];
  if (has_device && words.size() > 1) options.device = words[1];
  if (words.size() > port_at) {
    if (!read_number(words[port_at], 65535, number) || number == 0) return false;
    options.port = static_cast<std::uint16_t>(number);
  }
  if (words.size() > 3) {
    if (!read_number(words[3], 255, number)) return false;
    options.gid_index = static_cast<int>(number);
  }
  return true;
}

}  // namespace

Options parse_options(int count, char** words, bool is_server, bool has_device) {
  Options options;
  std::vector<const char*> positions;
  for (int i = 1; i < count; ++i) {
    if (std::strcmp(words[i], "--help") == 0) show_usage(words[0], is_server, has_device, 0);
    if (std::strcmp(words[i], "--events") == 0) {
      options.events = true;
    } else if (std::strncmp(words[i], "--", 2) != 0) {
      positions.push_back(words[i]);
    } else if (i + 1 == count || !take_option(words[i], words[i + 1], is_server, options)) {
      show_usage(words[0], is_server, has_device, 2);
    } else {
      ++i;
    }
  }
  if (!take_positions(positions, has_device, options)) show_usage(words[0], is_server, has_device, 2);
  if (!is_server && options.server.empty()) options.server = "127.0.0.1";
  return options;
}

const char* name_of(Mode mode) {
  switch (mode) {
    case Mode::kSend: return "send";
    case Mode::kWrite: return "write";
    case Mode::kRead: return "read";
    case Mode::kAtomic: return "atomic";
  }
  return "?";
}

}  // namespace examples
