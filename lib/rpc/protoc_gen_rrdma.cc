// protoc-gen-rrdma: the plugin for protoc --rrdma_out. For each NAME.proto with services it writes
// NAME.rrdma.h. A service S becomes the class SService, whose methods a server overrides, and the class
// SClient, whose methods a client calls. Methods are coroutines, named in snake_case.
#include <google/protobuf/compiler/code_generator.h>
#include <google/protobuf/compiler/plugin.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/printer.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cctype>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

namespace {

namespace pb = google::protobuf;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// "::a::b::Outer_Inner", as protoc names the class in C++.
std::string class_of(const pb::Descriptor& message) {
  std::string name = message.name();
  for (const pb::Descriptor* outer = message.containing_type(); outer != nullptr;
       outer = outer->containing_type())
    name = outer->name() + "_" + name;
  const std::string package = message.file()->package();
  return "::" + (package.empty() ? "" : replaced(package, ".", "::") + "::") + name;
}

// Keywords of C++, macros of its library and names of the generated classes.
constexpr std::string_view kTaken =
    " alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char8_t char16_t "
    "char32_t class compl concept const const_cast consteval constexpr constinit continue co_await co_return "
    "co_yield decltype default delete do double dynamic_cast else enum errno explicit export extern false "
    "float for friend goto if inline int linux long mutable namespace new noexcept not not_eq nullptr "
    "offsetof "
    "operator or or_eq private protected public register reinterpret_cast requires return short signed "
    "sizeof "
    "static static_assert static_cast stderr stdin stdout struct switch template this thread_local throw "
    "true "
    "try typedef typeid typename union unix unsigned using virtual void volatile wchar_t while xor xor_eq "
    "channel rrdma_caller_ rrdma_handlers rrdma_service rrdma_descriptors ";

// Converts "GetRow" to "get_row".
std::string snake_case_of(const std::string& method) {
  std::string name;
  for (std::size_t i = 0; i < method.size(); ++i) {
    const bool upper = std::isupper(static_cast<unsigned char>(method[i])) != 0;
    const bool after_lower = i > 0 && std::isupper(static_cast<unsigned char>(method[i - 1])) == 0;
    const bool before_lower =
        i + 1 < method.size() && std::islower(static_cast<unsigned char>(method[i + 1])) != 0;
    if (upper && i > 0 && method[i - 1] != '_' && (after_lower || before_lower)) name += '_';
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(method[i])));
  }
  return name;
}

// The function of a method. Underscores are appended to reserved words, and to the names of earlier methods:
// a service may have both Get and get.
std::string function_of(const pb::MethodDescriptor& method) {
  std::set<std::string> used;
  for (int i = 0;; ++i) {
    std::string name = snake_case_of(method.service()->method(i)->name());
    while (kTaken.find(" " + name + " ") != std::string_view::npos || !used.insert(name).second) name += '_';
    if (i == method.index()) return name;
  }
}

std::string shape_of(const pb::MethodDescriptor& method) {
  if (method.client_streaming()) return method.server_streaming() ? "kBidirectional" : "kClientStream";
  return method.server_streaming() ? "kServerStream" : "kUnary";
}

using Words = std::map<std::string, std::string>;

Words words_of(const pb::MethodDescriptor& method) {
  const bool idempotent = method.options().idempotency_level() != pb::MethodOptions::IDEMPOTENCY_UNKNOWN;
  return {{"service", method.service()->name()},
          {"full", method.service()->full_name()},
          {"method", method.name()},
          {"function", function_of(method)},
          {"argument", class_of(*method.input_type())},
          {"result", class_of(*method.output_type())},
          {"shape", shape_of(method)},
          {"idempotent", idempotent ? "true" : "false"}};
}

// Collects a file and its imports, dependencies first.
void collect(const pb::FileDescriptor& file, std::set<std::string>& seen, pb::FileDescriptorSet& into) {
  if (!seen.insert(file.name()).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) collect(*file.dependency(i), seen, into);
  file.CopyTo(into.add_file());
}

// The name of the function that returns the descriptors. It is unique, since one program may contain several
// files of a package.
std::string descriptors_of(const pb::FileDescriptor& file) {
  std::string name = "rrdma_descriptors_of_";
  for (const char letter : file.name())
    name += std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
  return name;
}

// Prints the descriptors for rrdma.Reflection as a string literal, broken into lines.
void print_descriptors(const pb::FileDescriptor& file, pb::io::Printer& out) {
  constexpr std::size_t kLine = 24;
  pb::FileDescriptorSet set;
  std::set<std::string> seen;
  collect(file, seen, set);
  const std::string octets = set.SerializeAsString();
  std::string text;
  for (std::size_t i = 0; i < octets.size(); ++i) {
    if (i % kLine == 0) text += i == 0 ? "      \"" : "\"\n      \"";
    const auto value = static_cast<unsigned char>(octets[i]);
    text += '\\';
    text += static_cast<char>('0' + value / 64);
    text += static_cast<char>('0' + value / 8 % 8);
    text += static_cast<char>('0' + value % 8);
  }
  out.Print(
      "// This file and those that it imports, as a google.protobuf.FileDescriptorSet.\n"
      "inline std::string_view $name$() {\n  static constexpr char octets[] =\n",
      "name", descriptors_of(file));
  out.PrintRaw(text);
  out.Print("\";\n  return {octets, sizeof(octets) - 1};\n}\n\n");
}

void print_server(const pb::ServiceDescriptor& service, pb::io::Printer& out) {
  out.Print(
      "// What a server does. A method that is not overridden ends with kUnimplemented.\nclass $name$Service "
      "{\n public:\n",
      "name", service.name());
  out.Print("  virtual ~$name$Service() = default;\n", "name", service.name());
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    const Words words = words_of(method);
    const char* form = "";
    if (!method.client_streaming() && !method.server_streaming()) {
      form =
          "  virtual ::rrdma::comm::Task<::rrdma::rpc::Result<$result$>> $function$(::rrdma::rpc::Call&, "
          "const $argument$&) {\n";
    } else if (!method.client_streaming()) {
      form =
          "  virtual ::rrdma::comm::Task<::rrdma::rpc::Status> $function$(::rrdma::rpc::Call&, const "
          "$argument$&,\n"
          "      ::rrdma::rpc::Writer<$result$>&) {\n";
    } else if (!method.server_streaming()) {
      form =
          "  virtual ::rrdma::comm::Task<::rrdma::rpc::Result<$result$>> $function$(::rrdma::rpc::Call&,\n"
          "      ::rrdma::rpc::Reader<$argument$>&) {\n";
    } else {
      form =
          "  virtual ::rrdma::comm::Task<::rrdma::rpc::Status> $function$(::rrdma::rpc::Call&,\n"
          "      ::rrdma::rpc::Reader<$argument$>&, ::rrdma::rpc::Writer<$result$>&) {\n";
    }
    out.Print(words, form);
    out.Print(words,
              "    co_return ::rrdma::rpc::Status(::rrdma::rpc::Code::kUnimplemented, "
              "\"$full$/$method$\");\n  }\n");
  }
  out.Print(
      "  // For rrdma::rpc::Server::add.\n  std::vector<::rrdma::rpc::detail::Handler> rrdma_handlers() {\n"
      "    std::vector<::rrdma::rpc::detail::Handler> handlers;\n");
  for (int i = 0; i < service.method_count(); ++i) {
    out.Print(
        words_of(*service.method(i)),
        "    handlers.push_back(::rrdma::rpc::detail::handler_of<&$service$Service::$function$>(*this));\n"
        "    handlers.back().method = $service$Methods::$function$();\n");
  }
  out.Print(
      "    return handlers;\n  }\n"
      "  static constexpr std::string_view rrdma_service() { return \"$full$\"; }\n"
      "  static std::string_view rrdma_descriptors() { return $name$(); }\n};\n\n",
      "full", service.full_name(), "name", descriptors_of(*service.file()));
}

void print_client(const pb::ServiceDescriptor& service, pb::io::Printer& out) {
  out.Print(
      "// What a client calls, through a Channel or a Client.\nclass $name$Client {\n public:\n"
      "  explicit $name$Client(::rrdma::rpc::Caller caller) : rrdma_caller_(std::move(caller)) {}\n",
      "name", service.name());
  for (int i = 0; i < service.method_count(); ++i) {
    const pb::MethodDescriptor& method = *service.method(i);
    const char* form = "";
    if (!method.client_streaming() && !method.server_streaming()) {
      form =
          "  ::rrdma::comm::Task<::rrdma::rpc::Result<$result$>> $function$(const $argument$& argument, "
          "::rrdma::rpc::CallOptions options = {}) {\n"
          "    return rrdma_caller_.unary<$result$>($service$Methods::$function$(), argument, "
          "std::move(options));\n  }\n";
    } else if (!method.client_streaming()) {
      form =
          "  ::rrdma::comm::Task<::rrdma::rpc::Result<::rrdma::rpc::ResultStream<$result$>>> "
          "$function$(const $argument$& argument,\n"
          "      ::rrdma::rpc::CallOptions options = {}) {\n"
          "    return rrdma_caller_.results<$result$>($service$Methods::$function$(), argument, "
          "std::move(options));\n  }\n";
    } else if (!method.server_streaming()) {
      form =
          "  ::rrdma::comm::Task<::rrdma::rpc::Result<::rrdma::rpc::ArgumentStream<$argument$, $result$>>> "
          "$function$(\n"
          "      ::rrdma::rpc::CallOptions options = {}) {\n"
          "    return rrdma_caller_.stream<::rrdma::rpc::ArgumentStream<$argument$, "
          "$result$>>($service$Methods::$function$(), std::move(options));\n  }\n";
    } else {
      form =
          "  ::rrdma::comm::Task<::rrdma::rpc::Result<::rrdma::rpc::Conversation<$argument$, $result$>>> "
          "$function$(\n"
          "      ::rrdma::rpc::CallOptions options = {}) {\n"
          "    return rrdma_caller_.stream<::rrdma::rpc::Conversation<$argument$, "
          "$result$>>($service$Methods::$function$(), std::move(options));\n  }\n";
    }
    out.Print(words_of(method), form);
  }
  out.Print(
      "  [[nodiscard]] ::rrdma::rpc::Channel& channel() { return rrdma_caller_.channel(); }\n\n private:\n"
      "  ::rrdma::rpc::Caller rrdma_caller_;\n};\n\n");
}

void print_service(const pb::ServiceDescriptor& service, pb::io::Printer& out) {
  out.Print("struct $name$Methods {\n", "name", service.name());
  for (int i = 0; i < service.method_count(); ++i) {
    out.Print(words_of(*service.method(i)),
              "  static constexpr ::rrdma::rpc::Method $function$() {\n"
              "    return {\"$full$\", \"$method$\", ::rrdma::rpc::method_id(\"$full$\", \"$method$\"), 0,\n"
              "            ::rrdma::rpc::Shape::$shape$, $idempotent$};\n  }\n");
  }
  out.Print("};\n\n");
  print_server(service, out);
  print_client(service, out);
}

class Generator final : public pb::compiler::CodeGenerator {
 public:
  bool Generate(const pb::FileDescriptor* file, const std::string& parameter,
                pb::compiler::GeneratorContext* context, std::string* error) const override {
    if (!parameter.empty()) {
      *error = "--rrdma_out takes no options";
      return false;
    }
    const std::string stem = file->name().substr(0, file->name().rfind(".proto"));
    const std::unique_ptr<pb::io::ZeroCopyOutputStream> stream(context->Open(stem + ".rrdma.h"));
    pb::io::Printer out(stream.get(), '$');
    out.Print(
        "// Written by protoc-gen-rrdma from $file$: do not edit.\n#pragma once\n\n#include "
        "<string_view>\n#include <utility>\n#include <vector>\n\n"
        "#include \"$stem$.pb.h\"\n#include \"rrdma/rpc/protobuf.h\"\n\n",
        "file", file->name(), "stem", stem);
    const std::string space = replaced(file->package(), ".", "::");
    if (!space.empty()) out.Print("namespace $space$ {\n\n", "space", space);
    if (file->service_count() != 0) print_descriptors(*file, out);
    for (int i = 0; i < file->service_count(); ++i) print_service(*file->service(i), out);
    if (!space.empty()) out.Print("}  // namespace $space$\n", "space", space);
    return true;
  }
  std::uint64_t GetSupportedFeatures() const override { return FEATURE_PROTO3_OPTIONAL; }
};

}  // namespace

int main(int count, char** words) {
  const Generator generator;
  return pb::compiler::PluginMain(count, words, &generator);
}
