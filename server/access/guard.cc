// What guards listeners: TLS (TlsContext), the thread that looks after files that may
// change (Refresher), and all of them from a server's settings (Guard::Make).
#include "server/access/guard.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/base/file.h"
#include "ops/base/status.h"

namespace beamwright::access {

// TLS for listeners. TlsContext holds an SSL_CTX of OpenSSL made from the files of certificate, key
// and, for client certificates, authority. Refresh reads the files again and replaces the context
// if they have changed and are good; connections that are open keep theirs, new ones get the new
// one.
//
// Settings: TLS 1.2 or later, no renegotiation, no compression, no session tickets (a resumed
// session would keep the certificates of the day it began), ALPN http/1.1 for listeners of HTTP.
//
// PeerNames gives the names of a client's certificate: its alternative names (DNS, URI, e-mail,
// addresses), else the common name. Names with a zero byte are dropped: C programs would read
// another name.

namespace {

constexpr int64_t kMaxPemBytes = 8 << 20;
constexpr size_t kMaxNames = 64;

using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Certificate = std::unique_ptr<X509, decltype(&X509_free)>;
using Key = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;

Bio ReaderOf(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
}

absl::Status Bad(const char* setting, const std::string& file, absl::string_view what) {
  const unsigned long code = ERR_peek_last_error();
  char text[256] = "";
  if (code != 0) {
    ERR_error_string_n(code, text, sizeof(text));
  }
  ERR_clear_error();
  return Invalid(setting, " '", file, "': ", what, code == 0 ? "" : " (", text,
                 code == 0 ? "" : ")");
}

// A callback that gives no passphrase: OpenSSL would ask for one at the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

// The PEM certificates of a text, in their order.
std::vector<Certificate> Certificates(const std::string& text) {
  std::vector<Certificate> all;
  const Bio reader = ReaderOf(text);
  while (X509* next = PEM_read_bio_X509(reader.get(), nullptr, NoPassphrase, nullptr)) {
    all.emplace_back(next, X509_free);
  }
  ERR_clear_error();  // the end of the text is an error too
  return all;
}

absl::Status UseCertificate(const TlsFiles& files, const std::string& text, SSL_CTX* context) {
  std::vector<Certificate> chain = Certificates(text);
  if (chain.empty()) {
    return Bad("tls-cert", files.cert, "holds no PEM certificate");
  }
  if (SSL_CTX_use_certificate(context, chain[0].get()) != 1) {
    return Bad("tls-cert", files.cert, "its first certificate cannot be used");
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) {
      return Bad("tls-cert", files.cert, absl::StrCat("certificate ", i, " cannot be used"));
    }
  }
  return absl::OkStatus();
}

absl::Status UseKey(const TlsFiles& files, const std::string& text, SSL_CTX* context) {
  const Key key(PEM_read_bio_PrivateKey(ReaderOf(text).get(), nullptr, NoPassphrase, nullptr),
                EVP_PKEY_free);
  if (key == nullptr) {
    return Bad("tls-key", files.key, "holds no PEM private key without a passphrase");
  }
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1) {
    return Bad("tls-key", files.key,
               absl::StrCat("does not belong to the certificate in '", files.cert, "'"));
  }
  return absl::OkStatus();
}

absl::Status UseClientCa(const TlsFiles& files, const std::string& text, SSL_CTX* context) {
  const std::vector<Certificate> roots = Certificates(text);
  if (roots.empty()) {
    return Bad("tls-client-ca", files.client_ca, "holds no PEM certificate");
  }
  X509_STORE* store = SSL_CTX_get_cert_store(context);
  for (const Certificate& root : roots) {
    if (X509_STORE_add_cert(store, root.get()) != 1 ||
        SSL_CTX_add_client_CA(context, root.get()) != 1) {
      return Bad("tls-client-ca", files.client_ca, "a certificate cannot be used");
    }
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

int ChooseProtocol(SSL*, const unsigned char** chosen, unsigned char* size,
                   const unsigned char* offered, unsigned int offered_size, void*) {
  static const unsigned char kHttp11[] = "\x08http/1.1";
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, kHttp11, sizeof(kHttp11) - 1, offered, offered_size) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_NOACK;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

void AddText(const ASN1_STRING* text, std::vector<std::string>& names) {
  const std::string name(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                         static_cast<size_t>(ASN1_STRING_length(text)));
  // A zero byte inside would make a name look like another one.
  if (!name.empty() && name.find('\0') == std::string::npos && names.size() < kMaxNames) {
    names.push_back(name);
  }
}

void AddAddress(const ASN1_OCTET_STRING* address, std::vector<std::string>& names) {
  char text[INET6_ADDRSTRLEN];
  const int size = ASN1_STRING_length(address);
  const int family = size == 4 ? AF_INET : AF_INET6;
  if ((size == 4 || size == 16) && names.size() < kMaxNames &&
      inet_ntop(family, ASN1_STRING_get0_data(address), text, sizeof(text)) != nullptr) {
    names.emplace_back(text);
  }
}

}  // namespace

absl::StatusOr<TlsContext::Content> TlsContext::Read() const {
  Content content;
  BW_ASSIGN_OR_RETURN(content.cert, ReadFile(files_.cert, kMaxPemBytes));
  BW_ASSIGN_OR_RETURN(content.key, ReadFile(files_.key, kMaxPemBytes));
  if (!files_.client_ca.empty()) {
    BW_ASSIGN_OR_RETURN(content.client_ca, ReadFile(files_.client_ca, kMaxPemBytes));
  }
  return content;
}

absl::StatusOr<std::unique_ptr<TlsContext>> TlsContext::Load(const TlsFiles& files) {
  std::unique_ptr<TlsContext> tls(new TlsContext(files));
  BW_RETURN_IF_ERROR(Annotate(tls->Refresh(), "TLS"));
  return tls;
}

absl::Status TlsContext::Refresh() {
  BW_ASSIGN_OR_RETURN(Content content, Read());
  {
    absl::MutexLock lock(&mutex_);
    if (content_ != nullptr && content.cert == content_->cert && content.key == content_->key &&
        content.client_ca == content_->client_ca) {
      return absl::OkStatus();
    }
  }
  const std::shared_ptr<SSL_CTX> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) {
    return absl::InternalError("OpenSSL makes no context");
  }
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  // A resumed session would be held to the certificates of the day it began.
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
  SSL_CTX_set_alpn_select_cb(context.get(), ChooseProtocol, nullptr);
  BW_RETURN_IF_ERROR(UseCertificate(files_, content.cert, context.get()));
  BW_RETURN_IF_ERROR(UseKey(files_, content.key, context.get()));
  if (!files_.client_ca.empty()) {
    BW_RETURN_IF_ERROR(UseClientCa(files_, content.client_ca, context.get()));
  }
  absl::MutexLock lock(&mutex_);
  context_ = context;
  content_ = std::make_shared<const Content>(std::move(content));
  return absl::OkStatus();
}

std::shared_ptr<SSL_CTX> TlsContext::current() const {
  absl::ReaderMutexLock lock(&mutex_);
  return context_;
}

std::shared_ptr<const TlsContext::Content> TlsContext::content() const {
  absl::ReaderMutexLock lock(&mutex_);
  return content_;
}

std::vector<std::string> PeerNames(const SSL& connection) {
  std::vector<std::string> names;
  const Certificate certificate(SSL_get1_peer_certificate(&connection), X509_free);
  if (certificate == nullptr) {
    return names;
  }
  auto* alternatives = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(alternatives, i);
    if (name->type == GEN_DNS || name->type == GEN_URI || name->type == GEN_EMAIL) {
      AddText(name->d.ia5, names);
    } else if (name->type == GEN_IPADD) {
      AddAddress(name->d.iPAddress, names);
    }
  }
  GENERAL_NAMES_free(alternatives);
  if (names.empty()) {
    const X509_NAME* subject = X509_get_subject_name(certificate.get());
    const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at >= 0) {
      AddText(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)), names);
    }
  }
  return names;
}

namespace {

absl::Status Check(const GuardOptions& options, const std::vector<std::string>& addresses) {
  if (options.tls.cert.empty() != options.tls.key.empty()) {
    return Invalid("tls-cert and tls-key: give both or neither");
  }
  const bool tls = !options.tls.cert.empty();
  if (!tls && !options.tls.client_ca.empty()) {
    return Invalid("tls-client-ca: has no meaning without tls-cert and tls-key");
  }
  const auto far = std::find_if_not(addresses.begin(), addresses.end(), IsLocal);
  if (!options.token_file.empty() && !tls && !options.tokens_in_clear && far != addresses.end()) {
    return Invalid("auth-token-file: tokens would cross the network in clear text to '", *far,
                   "'; set tls-cert and tls-key, listen on 127.0.0.1, or, where something else "
                   "encrypts, set auth-in-clear");
  }
  return absl::OkStatus();
}

}  // namespace

void Guard::Refresh() const {
  if (refresher_ != nullptr) {
    refresher_->Hurry();
  }
}

bool IsLocal(const std::string& address) {
  return address == "none" || absl::StartsWith(address, "unix:") ||
         absl::StartsWith(address, "unix-abstract:") || absl::StartsWith(address, "127.") ||
         absl::StartsWith(address, "localhost:") || absl::StartsWith(address, "[::1]:");
}

absl::StatusOr<std::unique_ptr<Guard>> Guard::Make(const GuardOptions& options,
                                                   const std::vector<std::string>& addresses) {
  BW_RETURN_IF_ERROR(Check(options, addresses));
  std::unique_ptr<Guard> guard(new Guard);
  AccessOptions api{options.token_file, options.tenant_file, !options.tls.client_ca.empty()};
  BW_ASSIGN_OR_RETURN(guard->api_, Access::Load(api));
  AccessOptions admin = api;
  admin.verified_peers = false;
  BW_ASSIGN_OR_RETURN(guard->admin_, Access::Load(admin));
  if (!options.tls.cert.empty()) {
    BW_ASSIGN_OR_RETURN(guard->tls_, TlsContext::Load(options.tls));
  }
  Guard& made = *guard;
  // Both read the same files, whose fault is said once.
  std::vector<std::function<absl::Status()>> refresh = {[&made] {
    absl::Status status = made.api_->Refresh();
    status.Update(made.admin_->Refresh());
    return status;
  }};
  if (made.tls_ != nullptr) {
    refresh.emplace_back([&made] { return Annotate(made.tls_->Refresh(), "TLS"); });
  }
  if (!made.api_->open() || made.tls_ != nullptr) {
    made.refresher_ = std::make_unique<Refresher>(options.refresh, std::move(refresh));
  }
  return guard;
}

namespace {

// Or the thread would never sleep.
constexpr absl::Duration kShortest = absl::Milliseconds(10);

}  // namespace

Refresher::Refresher(absl::Duration interval, std::vector<std::function<absl::Status()>> refresh)
    : interval_(std::max(interval, kShortest)),
      refresh_(std::move(refresh)),
      last_errors_(refresh_.size()),
      thread_("bw-refresher", interval_, [this] { Look(); }) {}

void Refresher::Look() {
  for (size_t i = 0; i < refresh_.size(); ++i) {
    const absl::Status status = refresh_[i]();
    std::string error(status.message());
    if (error != last_errors_[i] && !error.empty()) {
      spdlog::error("{}; what was read before holds on", error);
    }
    last_errors_[i] = std::move(error);
  }
}

}  // namespace beamwright::access
