#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "launcher/hosts/openssl_call.h"
#include "launcher/hosts/tls.h"

namespace rejoin::launcher {
namespace {

// The PSK identity of each TlsUse, and the label from which its key is derived. The identity has to
// change with the part of the protocol that both sides speak before they compare versions.
struct Use {
  const char *identity, *label;
};
constexpr Use kUses[] = {{"rejoin agent 1", "rejoin: key of the connection to an agent\n"},
                         {"rejoin data 1", "rejoin: key of a connection for data\n"}};
constexpr unsigned char kCipher[] = {0x13, 0x01};
constexpr char kCipherName[] = "TLS_AES_128_GCM_SHA256";

// A key for this use only: the SHA-256 of its label and of the secret.
using Key = std::array<unsigned char, 32>;

// A connection's keys are changed after so many records. AES-GCM is good for 2^24.5 records of 16
// KiB (RFC 8446, 5.5).
constexpr std::uint64_t kMostRecords = std::uint64_t{1} << 16;

class OpenSslTls final : public Tls {
 public:
  OpenSslTls(int socket, TlsSide side, const Use& use, const Key& key)
      : identity_(use.identity), key_(key), connects_(side == TlsSide::kConnects) {
    OpenSslCall call;
    context_ = SSL_CTX_new(connects_ ? TLS_client_method() : TLS_server_method());
    if (context_ == nullptr) return;
    const bool is_set = SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION) == 1 &&
                        SSL_CTX_set_ciphersuites(context_, kCipherName) == 1 &&
                        SSL_CTX_set_num_tickets(context_, 0) == 1;
    SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                   SSL_MODE_RELEASE_BUFFERS);
    // Without the secret the handshake would need a certificate, and no authority is trusted.
    SSL_CTX_set_verify(context_, connects_ ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    SSL_CTX_set_psk_use_session_callback(context_, use_session);
    SSL_CTX_set_psk_find_session_callback(context_, find_session);
    ssl_ = is_set ? SSL_new(context_) : nullptr;
    if (ssl_ == nullptr) return;
    SSL_set_app_data(ssl_, this);
    SSL_set_fd(ssl_, socket);
    connects_ ? SSL_set_connect_state(ssl_) : SSL_set_accept_state(ssl_);
  }
  ~OpenSslTls() override {
    OpenSslCall call;
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    OPENSSL_cleanse(key_.data(), key_.size());
    call.forget_thread();
  }
  bool works() const { return ssl_ != nullptr; }

  ssize_t read(void* to, std::size_t bytes) override {
    OpenSslCall call;
    ERR_clear_error();  // of another connection
    if (const int proved = proves(); proved <= 0) return proved;
    return done(SSL_read(ssl_, to, at_most(bytes)));
  }
  ssize_t write(const void* from, std::size_t bytes) override {
    OpenSslCall call;
    ERR_clear_error();
    const int proved = proves();
    const int n = proved <= 0 ? proved : done(SSL_write(ssl_, from, at_most(bytes)));
    if (n > 0 && ++records_ >= kMostRecords) change_keys();
    if (n != 0) return n;
    errno = EPIPE;  // the other side has ended the connection
    return -1;
  }
  int prove() override {
    OpenSslCall call;
    const int proved = proves();
    if (proved > 0) call.forget_thread();  // another thread may go on
    return proved;
  }
  void end() override {
    OpenSslCall call;
    ERR_clear_error();
    if (is_proved_) SSL_shutdown(ssl_);
  }
  short wants() const override { return wants_; }
  const char* why() const override { return why_.c_str(); }

 private:
  static int at_most(std::size_t bytes) {
    return static_cast<int>(std::min<std::size_t>(bytes, 1 << 20));
  }

  // Only if it can be sent at once: until then nothing would be read, and if the other side waits
  // for the same, neither would go on.
  void change_keys() {
    pollfd room = {SSL_get_fd(ssl_), POLLOUT, 0};
    if (poll(&room, 1, 0) != 1 || room.revents != POLLOUT) return;
    if (SSL_key_update(ssl_, SSL_KEY_UPDATE_NOT_REQUESTED) == 1) {
      SSL_do_handshake(ssl_);  // the next call tells its failure
      records_ = 0;
    }
    ERR_clear_error();
  }

  int proves() {
    if (!why_.empty()) return fail(why_);  // for good
    if (is_proved_) return 1;
    if (const int n = done(SSL_do_handshake(ssl_)); n <= 0) return n;
    // The session is the secret's; a handshake without it would have begun a new one.
    if (SSL_session_reused(ssl_) != 1) return fail("has not proved that it knows the secret");
    is_proved_ = true;
    return 1;
  }

  // What a call of OpenSSL has returned, as Tls does.
  int done(int n) {
    if (n > 0) return n;
    const int error = errno;
    const int what = SSL_get_error(ssl_, n);
    const unsigned long reason = ERR_peek_error();
    ERR_clear_error();
    if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE) {
      wants_ = what == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
      errno = EAGAIN;
      return -1;
    }
    if (what == SSL_ERROR_ZERO_RETURN) return 0;
    if (what == SSL_ERROR_SYSCALL) {
      errno = error;
      return error == 0 ? 0 : -1;
    }
    // The end is no message of TLS if the process was killed. Messages say where they end.
    if (ERR_GET_REASON(reason) == SSL_R_UNEXPECTED_EOF_WHILE_READING) return 0;
    return fail(text_of(reason));
  }
  std::string text_of(unsigned long reason) const {
    constexpr int kAlert = SSL_AD_REASON_OFFSET;  // and above: the other side has sent one
    const int number = ERR_GET_REASON(reason);
    if (!is_proved_ && number == SSL_R_BINDER_DOES_NOT_VERIFY) return "has another secret";
    if (!is_proved_ && connects_ && number >= kAlert) return "has another secret";
    char text[256];
    ERR_error_string_n(reason, text, sizeof text);
    return std::string("has sent something that is not TLS 1.3 with the job's secret (") + text +
           ")";
  }
  int fail(const std::string& why) {
    why_ = why;
    errno = EPROTO;
    return -1;
  }

  SSL_SESSION* session() {
    SSL_SESSION* session = SSL_SESSION_new();
    const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl_, kCipher);
    if (session != nullptr && cipher != nullptr &&
        SSL_SESSION_set1_master_key(session, key_.data(), key_.size()) == 1 &&
        SSL_SESSION_set_cipher(session, cipher) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
      return session;
    }
    SSL_SESSION_free(session);
    return nullptr;
  }
  static OpenSslTls* of(SSL* ssl) { return static_cast<OpenSslTls*>(SSL_get_app_data(ssl)); }
  static int use_session(SSL* ssl, const EVP_MD* digest, const unsigned char** identity,
                         std::size_t* bytes, SSL_SESSION** session) {
    if (digest != nullptr && !EVP_MD_is_a(digest, "SHA256")) return 0;
    *session = of(ssl)->session();
    *identity = reinterpret_cast<const unsigned char*>(of(ssl)->identity_.data());
    *bytes = of(ssl)->identity_.size();
    return *session != nullptr;
  }
  // Another identity is none: the handshake fails, because there is no certificate.
  static int find_session(SSL* ssl, const unsigned char* identity, std::size_t bytes,
                          SSL_SESSION** session) {
    *session = nullptr;
    const std::string& own = of(ssl)->identity_;
    if (bytes != own.size() || memcmp(identity, own.data(), bytes) != 0) return 1;
    *session = of(ssl)->session();
    return *session != nullptr;
  }

  const std::string identity_;
  Key key_;
  const bool connects_;
  SSL_CTX* context_ = nullptr;
  SSL* ssl_ = nullptr;
  bool is_proved_ = false;
  std::uint64_t records_ = 0;  // that were sent with these keys
  short wants_ = POLLIN;
  std::string why_;
};

bool make_key(const Use& use, const void* secret, std::size_t bytes, Key& key) {
  OpenSslCall call;
  std::string text = use.label;
  text.append(static_cast<const char*>(secret), bytes);
  unsigned int size = 0;
  const int digested =
      EVP_Digest(text.data(), text.size(), key.data(), &size, EVP_sha256(), nullptr);
  OPENSSL_cleanse(text.data(), text.size());
  return digested == 1 && size == key.size();
}

}  // namespace

extern "C" Tls* rejoin_open_tls(int socket, TlsSide side, TlsUse use, const void* secret,
                                std::size_t bytes) {
  const Use& of = kUses[static_cast<std::size_t>(use)];
  Key key;
  if (!make_key(of, secret, bytes, key)) return nullptr;
  auto* made = new (std::nothrow) OpenSslTls(socket, side, of, key);
  if (made != nullptr && made->works()) return made;
  delete made;
  return nullptr;
}

}  // namespace rejoin::launcher
