// `rrdma decode FILE`: shows the packets of a capture as lines, as trees of explained fields, or as JSON.
// wire/ decodes the packets; this file handles input files and output.
#include <unistd.h>

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "dissection/packet_dissection.h"
#include "dissection/packet_fields.h"
#include "dissection/printer.h"
#include "tools/commands.h"
#include "tools/decode/capture_summary.h"
#include "tools/decode/connections.h"
#include "tools/decode/packet_filter.h"
#include "tools/decode/packet_json.h"
#include "tools/decode/rpc_frames.h"
#include "tools/exit_status.h"
#include "tools/file_octets.h"
#include "tools/interrupt.h"
#include "tools/terminal.h"
#include "wire/pcap_reader.h"

namespace rrdma::tools {
namespace {

constexpr std::string_view kName = "rrdma decode";
constexpr std::string_view kDecodeExits =
    "Exit status:\n"
    "  0  every RoCE packet is valid\n"
    "  1  at least one RoCE packet is invalid\n"
    "  2  the file cannot be read (missing, truncated, not a capture), or an argument is wrong\n"
    "Packets that are not RoCE or only partly captured do not count as invalid.\n";

struct DecodeOptions {
  std::string file;
  std::vector<std::string> filter_words;
  PacketFilter filter;
  bool summary = false;
  bool verbose = false;
  bool json = false;
  bool payload = false;
  bool rpc = false;
  std::vector<std::string> methods;
  std::string colour = "auto";
};

struct Numbered {
  std::uint64_t number = 0;  // from 1
  std::int64_t since_first_ns = 0;
  const wire::CapturedPacket& captured;
  const wire::Dissection& packet;
  std::string interface_name;
  std::optional<wire::Qpn> source_qp;
  const RpcFrames& rpc;
};

struct Tally {
  std::uint64_t packets = 0;
  std::uint64_t shown = 0;
  std::uint64_t bad = 0;
  std::uint64_t cut = 0;
  std::uint64_t foreign = 0;
};

// The captured part of the payload.
Octets payload_of(const wire::Dissection& packet) {
  if (!packet.transport) return {};
  const Octets payload = packet.transport->payload;
  if (packet.verdict != wire::PacketVerdict::kCut) return payload;
  const auto before = static_cast<std::size_t>(payload.data() - packet.filled_up.data());
  if (packet.captured_octets <= before) return {};
  return payload.first(std::min(payload.size(), packet.captured_octets - before));
}

std::string line_form(const Numbered& item, const wire::Palette& palette) {
  std::string line = formatted("{:>5}  {:>12}  {}", item.number, wire::seconds_text(item.since_first_ns),
                               wire::packet_line(item.packet, palette, item.source_qp));
  if (const std::string frame = item.rpc.line(item.packet, payload_of(item.packet)); !frame.empty())
    line += formatted("  {}{}{}", palette.name, frame, palette.reset);
  for (const auto comment : item.captured.comments) {
    line += formatted("  {}# {}{}", palette.faint, printable(comment), palette.reset);
  }
  return line + "\n";
}

wire::Field fields_of(const Numbered& item) {
  wire::Field root = wire::packet_fields(item.packet);
  item.rpc.add_fields(root, item.packet, payload_of(item.packet));
  return root;
}

std::string tree_form(const Numbered& item, const DecodeOptions& options, const wire::Palette& palette) {
  std::string text = line_form(item, palette);
  text += formatted("    {} bytes captured of {}", item.packet.captured_octets, item.packet.original_octets);
  if (!item.interface_name.empty()) text += " on " + printable(item.interface_name);
  text += "\n" + wire::fields_tree(fields_of(item), palette);
  if (options.payload) text += wire::hex_dump(payload_of(item.packet), 6);
  return text + "\n";
}

std::string json_form(const Numbered& item, const DecodeOptions& options) {
  nlohmann::ordered_json object;
  object["number"] = item.number;
  object["time_ns"] = item.captured.time_ns;
  object["since_first_ns"] = item.since_first_ns;
  if (!item.interface_name.empty()) object["interface"] = item.interface_name;
  object["captured_octets"] = item.packet.captured_octets;
  object["original_octets"] = item.packet.original_octets;
  object["verdict"] = wire::verdict_name(item.packet.verdict);
  if (!item.packet.reason.empty()) object["reason"] = item.packet.reason;
  if (!item.captured.comments.empty()) object["comments"] = item.captured.comments;
  if (item.source_qp) object["sender_qp"] = item.source_qp->value;
  add_fields(object, fields_of(item));
  if (options.payload && item.packet.transport) {
    std::string hex;
    for (const std::uint8_t octet : payload_of(item.packet)) hex += formatted("{:02x}", octet);
    object["payload"] = hex;
  }
  return json_line(object) + "\n";
}

void count(Tally& tally, wire::PacketVerdict verdict) {
  ++tally.packets;
  switch (verdict) {
    case wire::PacketVerdict::kGood: return;
    case wire::PacketVerdict::kCut: ++tally.cut; return;
    case wire::PacketVerdict::kBad: ++tally.bad; return;
    case wire::PacketVerdict::kForeign: ++tally.foreign; return;
  }
}

// A suggestion for a file that is not a capture.
std::string hint_for(wire::CaptureFault fault, Octets file, const std::string& path) {
  const auto begins_with = [file](std::initializer_list<std::uint8_t> magic) {
    return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
  };
  if (fault != wire::CaptureFault::kForeign) return "";
  if (begins_with({0x1f, 0x8b})) return formatted("it is compressed: try 'zcat {} | rrdma decode -'", path);
  if (begins_with({0x28, 0xb5, 0x2f, 0xfd})) {
    return formatted("it is compressed: try 'zstdcat {} | rrdma decode -'", path);
  }
  return "give a file that tcpdump, dumpcap or Wireshark wrote";
}

int complain_about_file(const DecodeOptions& options, const wire::CaptureError& error, Octets file,
                        std::uint64_t packets) {
  std::string sentence = formatted("{}: {}", options.file, wire::describe(error.fault));
  const bool whole_file =
      error.fault == wire::CaptureFault::kEmpty || error.fault == wire::CaptureFault::kForeign;
  if (!whole_file) sentence += formatted(" (at byte {}, after {} packets)", error.offset, packets);
  return complain(kName, sentence, hint_for(error.fault, file, options.file));
}

std::string interface_name(const wire::PcapReader& reader, std::uint32_t index) {
  return index < reader.interfaces().size() ? reader.interfaces()[index].name : std::string();
}

std::string form_of(const Numbered& item, const DecodeOptions& options, const wire::Palette& palette) {
  if (options.json) return json_form(item, options);
  if (options.verbose) return tree_form(item, options, palette);
  return line_form(item, palette);
}

// Learns the connections from the whole file, so that source queue pairs are known from the first packet on.
Connections connections_of(Octets file, RpcFrames& rpc) {
  Connections connections;
  auto reader = wire::PcapReader::open(file);
  while (reader && !interrupted()) {
    auto next = reader->next();
    for (const wire::CaptureNote& note : reader->take_notes()) rpc.learn(note);
    if (!next || !*next) break;
    const wire::Dissection packet = wire::dissect(**next);
    connections.learn(packet);
    rpc.learn(packet);
  }
  connections.settle();
  return connections;
}

// A capture note, shown as a line between the packets.
std::string note_form(const wire::CaptureNote& note, std::int64_t since_first_ns,
                      const DecodeOptions& options, const wire::Palette& palette) {
  if (options.json) {
    nlohmann::ordered_json object;
    object["time_ns"] = note.time_ns;
    object["since_first_ns"] = since_first_ns;
    object["note"] = note.text;
    return json_line(object) + "\n";
  }
  return formatted("{:>5}  {:>12}  {}# {}{}\n", "-", wire::seconds_text(since_first_ns), palette.faint,
                   printable(note.text), palette.reset);
}

// Shows or adds up all packets that pass the filter. Returns the fault that ended the file early, if any.
std::optional<wire::CaptureError> show_packets(wire::PcapReader& reader, const Connections& connections,
                                               const RpcFrames& rpc, const DecodeOptions& options,
                                               Output& output, Tally& tally, CaptureSummary& summary) {
  const wire::Palette palette = palette_for(STDOUT_FILENO, colour_choice(options.colour));
  const bool notes_wanted = !options.summary && (!options.filter.any() || options.filter.errors);
  std::optional<std::uint64_t> first_ns;
  const auto since_first = [&first_ns](std::uint64_t time_ns) {
    if (!first_ns) first_ns = time_ns;
    return static_cast<std::int64_t>(time_ns - *first_ns);
  };
  while (!interrupted()) {
    auto next = reader.next();
    for (const wire::CaptureNote& note : reader.take_notes()) {
      if (notes_wanted && wire::method_named_in(note).empty())
        output.write(note_form(note, since_first(note.time_ns), options, palette));
    }
    if (!next) return next.error();
    if (!*next) return std::nullopt;
    const wire::CapturedPacket& captured = **next;
    const wire::Dissection packet = wire::dissect(captured);
    const std::int64_t since_first_ns = since_first(captured.time_ns);
    count(tally, packet.verdict);
    const auto source = connections.source_qp(packet);
    if (options.filter.any() && !options.filter.matches(packet, captured, source)) continue;
    ++tally.shown;
    if (options.summary) {
      summary.add(packet, captured.time_ns, source);
      continue;
    }
    output.write(form_of({tally.packets, since_first_ns, captured, packet,
                          interface_name(reader, captured.interface), source, rpc},
                         options, palette));
  }
  return std::nullopt;
}

// Prints a closing summary if a person is likely to read it.
void summarise(const DecodeOptions& options, const Tally& tally, std::uint64_t left_out) {
  const bool wanted = options.summary || is_terminal(STDOUT_FILENO);
  if (tally.bad == 0 && left_out == 0 && (options.json || !wanted)) return;
  const auto roce = tally.packets - tally.foreign;
  std::string sentence = formatted("{} packets: {} RoCE ({} bad, {} cut by the capture), {} others",
                                   tally.packets, roce, tally.bad, tally.cut, tally.foreign);
  if (options.filter.any()) sentence += formatted("; {} are shown", tally.shown);
  complain(kName, sentence,
           left_out == 0 ? "" : formatted("the capture itself had to leave out {} more", left_out));
}

int report(const DecodeOptions& options, Output& output, const CaptureSummary& summary,
           std::uint64_t left_out) {
  if (options.summary) {
    output.write(options.json ? summary.json(left_out)
                              : summary.text(palette_for(STDOUT_FILENO, colour_choice(options.colour)),
                                             terminal_columns(STDOUT_FILENO)));
  }
  if (const int error = output.flush(); error != 0)
    return complain(kName, formatted("cannot write the output: {}", std::strerror(error)), "");
  return kExitSuccess;
}

int run_decode(DecodeOptions& options) {
  watch_interrupts();
  auto filter = parse_filter(options.filter_words);
  if (!filter)
    return complain(kName, filter.error(),
                    "filters are qp=N, peer=ADDRESS, op=NAME, psn=N, len>N, rkey=N, status=nak and errors");
  options.filter = *filter;
  if (options.file == "-" && is_terminal(STDIN_FILENO)) {
    return complain(kName, "standard input is a terminal", "pipe a capture into it, or name a file");
  }
  const auto file = FileOctets::read(options.file);
  if (!file && interrupted()) return kExitFailure;  // the user interrupted; no message needed
  if (!file) return complain(kName, formatted("{}: {}", options.file, file.error()), "");

  auto reader = wire::PcapReader::open(file->octets());
  if (!reader) return complain_about_file(options, reader.error(), file->octets(), 0);
  Output output;
  Tally tally;
  CaptureSummary summary;
  RpcFrames rpc(options.rpc, options.methods);
  const Connections connections = connections_of(file->octets(), rpc);
  const auto fault = show_packets(*reader, connections, rpc, options, output, tally, summary);
  if (const int status = report(options, output, summary, reader->left_out()); status != 0) return status;
  if (fault) return complain_about_file(options, *fault, file->octets(), tally.packets);
  summarise(options, tally, reader->left_out());
  return tally.bad == 0 ? kExitSuccess : kExitFoundFault;
}

}  // namespace

void add_decode_command(CLI::App& app, Runner& chosen) {
  auto options = std::make_shared<DecodeOptions>();
  CLI::App* decode =
      add_command(app, "decode", kPackets, "Print the RoCE packets of a pcap or pcapng file",
                  "rrdma decode now.pcapng\nrrdma decode now.pcapng errors\nrrdma decode -v now.pcapng");
  decode->add_option("FILE", options->file, "The capture; - for standard input")->required();
  decode
      ->add_option("FILTER", options->filter_words,
                   "Only matching packets: qp=N, peer=ADDRESS, op=NAME (such as op=READ, op=NAK, op=REQ), "
                   "psn=N, len=N, rkey=N, "
                   "status=ANSWER (ack, nak, rnr, sequence, invalid, access, operational, rej), errors; psn "
                   "and len also with < "
                   "and >")
      ->option_text("[qp=N] [peer=ADDRESS] [op=NAME] [psn=N] [len>N] [rkey=N] [status=ANSWER] [errors]");
  auto* verbose =
      decode->add_flag("-v,--verbose", options->verbose, "Print every field as a tree, with an explanation");
  decode->add_flag("-j,--json", options->json, "Print one JSON object for each packet, one per line")
      ->excludes(verbose);
  decode
      ->add_flag("-s,--summary", options->summary,
                 "Print one line for each direction of each connection instead of the packets")
      ->excludes(verbose);
  decode->add_flag("-p,--payload", options->payload,
                   "With --verbose or --json: also print the payload in hexadecimal");
  decode->add_flag("--rpc", options->rpc,
                   "Decode every SEND as a frame of rrdma::rpc, even without the handshake");
  decode
      ->add_option("--method", options->methods,
                   "The path of an rpc method, such as store.Store/Get, to print in place of its number")
      ->type_name("PATH");
  decode
      ->add_option("--color", options->colour,
                   "auto (on a terminal, unless NO_COLOR is set), always or never")
      ->type_name("WHEN")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  decode->footer(std::string(kDecodeExits));
  decode->callback([&chosen, options] { chosen = [options] { return run_decode(*options); }; });
}

}  // namespace rrdma::tools
