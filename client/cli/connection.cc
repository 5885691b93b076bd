#include "client/cli/connection.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/flags.h"
#include "client/cli/terminal.h"

namespace beamwright::client {

void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags) {
  app.add_option("--server", flags.client.address,
                 "Where the server listens for gRPC [host:port; environment BEAMWRIGHT_SERVER; "
                 "default localhost:8001]")
      ->envname("BEAMWRIGHT_SERVER")
      ->type_name("ADDRESS")
      ->group(kConnectionGroup);
  SecurityOptions& security = flags.client.security;
  const auto add = [&app](const char* flag, const char* variable, const char* help,
                          std::string& value, const char* type) {
    app.add_option(flag, value, help)->envname(variable)->type_name(type)->group(kConnectionGroup);
  };
  app.add_flag("--tls", security.tls, "Encrypt the connection; implied by --tls-ca and --tls-cert.")
      ->envname("BEAMWRIGHT_TLS")
      ->group(kConnectionGroup);
  add("--tls-ca", "BEAMWRIGHT_TLS_CA", "Certificates that vouch for the server (PEM).",
      security.ca_file, "FILE");
  add("--tls-cert", "BEAMWRIGHT_TLS_CERT", "Your certificate (PEM), if the server asks for one.",
      security.cert_file, "FILE");
  add("--tls-key", "BEAMWRIGHT_TLS_KEY", "Its private key (PEM).", security.key_file, "FILE");
  add("--tls-server-name", "BEAMWRIGHT_TLS_SERVER_NAME",
      "Name in the server's certificate, where it is not the host's.", security.server_name,
      "NAME");
  add("--token-file", "BEAMWRIGHT_TOKEN_FILE", "File with the bearer token to call with.",
      security.token_file, "FILE");
  AddDurationFlag(app, {"--timeout", kConnectionGroup, "Longest wait for an answer to a call."},
                  absl::Milliseconds(1), absl::Hours(24), flags.timeout);
}

std::string CodeAndMessage(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", Printable(status.message()));
}

std::string Explain(const absl::Status& status, const ConnectionFlags& flags) {
  const absl::string_view message = status.message();
  const std::string& address = flags.client.address;
  constexpr absl::string_view kHint = "; --server or BEAMWRIGHT_SERVER names another one";
  if (absl::IsUnavailable(status) &&
      absl::StrContains(message, "Failed to connect to remote host")) {
    const size_t colon = message.rfind(": ");
    const absl::string_view reason =
        colon == absl::string_view::npos ? message : message.substr(colon + 2);
    return absl::StrCat("no server answers at ", address, " (", Printable(reason), ")", kHint);
  }
  if (absl::IsUnavailable(status) && absl::StrContains(message, "DNS resolution failed")) {
    return absl::StrCat("the host of ", address, " is not known", kHint);
  }
  if (absl::IsDeadlineExceeded(status)) {
    return absl::StrCat("no answer from ", address, " within ", absl::FormatDuration(flags.timeout),
                        " (--timeout): ", CodeAndMessage(status));
  }
  return CodeAndMessage(status);
}

void AddModelFlag(CLI::App& app, std::string& model) {
  app.add_option("--model", model, "The model to ask. May be left out where only one is served.")
      ->type_name("NAME")
      ->group("Input");
}

void AddVersionFlag(CLI::App& app, std::string& version) {
  app.add_option("--version", version,
                 "Its version, or a label of it [default: the newest that is served]")
      ->type_name("VERSION")
      ->group("Input");
}

}  // namespace beamwright::client
