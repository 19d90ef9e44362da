// How connections end: a client that closes its half, and errors in one connection's turn.

#include "server/server_fixture.h"

namespace kv::server {
namespace {

using protocol::Opcode;
using protocol::Status;
using namespace testing_support;

class ConnectionTest : public ServerTest {
  protected:
    static constexpr size_t kSize = 8 << 20;  ///< more than the sockets' buffers hold

    /// A client that reads only the answers it waits for; `kSize` bytes are stored under "k".
    Client reader() {
        Client client = connect(64 << 10);
        client.send(Frame{.opcode = Opcode::kHello, .key = "t"}.bytes() +
                    setBytes("k", std::string(kSize, 'v')));
        EXPECT_EQ(client.receive(2).size(), 2U);
        return client;
    }
    bool allGone() {
        return eventually([this] { return context().connections.load() == 0; });
    }
};

TEST_F(ConnectionTest, AClientThatClosesItsHalfGetsAllAnswers) {
    start({.maxUnsentBytes = 64 << 20});
    for (const bool behindHalfARequest : {false, true}) {
        auto asking = reader();
        asking.send(getBytes("k", 1) + getBytes("none", 2) + getBytes("k", 3));
        ASSERT_TRUE(eventually([&] { return context().buffers.held() >= kSize; }));
        asking.send(behindHalfARequest ? getBytes("k").substr(0, 20) : "");
        asking.endSending();
        const auto answers = asking.receive(3);
        ASSERT_EQ(answers.size(), 3U);
        EXPECT_EQ(answers[0].value.size(), kSize);
        EXPECT_EQ(answers[1].status, Status::kKeyEnoent);
        EXPECT_EQ(answers[2].value.size(), kSize);
        EXPECT_TRUE(asking.atEnd());
        EXPECT_TRUE(allGone());
    }
    EXPECT_EQ(sum(&FrontEndStats::overdueCloses), 0U);
}

TEST_F(ConnectionTest, AClientThatClosesItsHalfGetsMoreThanMayWaitAtOnce) {
    start();
    auto client = reader();
    client.send(getBytes("k") + getBytes("k") + getBytes("k"));
    client.endSending();
    ASSERT_TRUE(eventually([this] { return sum(&FrontEndStats::slowReaders) >= 1; }));
    EXPECT_EQ(client.receive(3).size(), 3U);
    EXPECT_TRUE(client.atEnd());
    EXPECT_TRUE(allGone());
}

TEST_F(ConnectionTest, AClientThatClosesItsHalfGetsDelayedAnswers) {
    std::atomic<uint64_t> persisted{0};
    start({}, nullptr, 2, [&persisted](ServerContext& server) {
        server.persistedSeqno = [&persisted](Vbid) { return Seqno{persisted.load()}; };
    });
    auto client = connect();
    client.send(setBytes("k", "v") +
                Frame{.opcode = Opcode::kSeqnoPersistence, .extras = std::string(7, '\0') + '\1'}
                        .bytes() +
                getBytes("k"));
    client.endSending();
    ASSERT_EQ(client.receive(1).size(), 1U);
    persisted = 1;
    const auto answers = client.receive(2);
    ASSERT_EQ(answers.size(), 2U);
    EXPECT_EQ(answers[0].status, Status::kSuccess);
    EXPECT_EQ(answers[1].value, "v");
    EXPECT_TRUE(client.atEnd());
}

TEST_F(ConnectionTest, AClientThatNeitherSendsNorReadsIsClosed) {
    start({.maxUnsentBytes = 64 << 20, .idlePartialSeconds = 1});
    auto client = reader();
    client.send(getBytes("k"));
    client.endSending();
    EXPECT_TRUE(allGone());
}

TEST_F(ConnectionTest, AClientThatNeitherSendsNorReadsIsClosedWhileItIsNotRead) {
    start({.idlePartialSeconds = 1});
    auto client = reader();
    auto open = reader();
    for (auto* blocked : {&client, &open}) {
        blocked->send(getBytes("k") + getBytes("k"));
    }
    ASSERT_TRUE(eventually([this] { return sum(&FrontEndStats::slowReaders) >= 2; }));
    client.endSending();
    EXPECT_TRUE(eventually([this] { return context().connections.load() == 1; }));
    EXPECT_EQ(open.receive(2).size(), 2U) << "a client that can still send may take its time";
}

/// Returns both ends of a connection; the second one does not block.
std::pair<Fd, Fd> connectedPair() {
    const Fd listening(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listening.get(), any, size), 0);
    EXPECT_EQ(::listen(listening.get(), 1), 0);
    EXPECT_EQ(::getsockname(listening.get(), any, &size), 0);
    Fd one(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::connect(one.get(), any, size), 0);
    return {std::move(one), Fd(::accept4(listening.get(), nullptr, nullptr, SOCK_NONBLOCK))};
}

TEST(WatchedSocket, SendsALargeAnswerInParts) {
    auto [reader, writer] = connectedPair();
    std::thread reading([fd = reader.get()] {
        std::string part(1 << 20, '\0');
        while (::recv(fd, part.data(), part.size(), 0) > 0) {
        }
    });
    const EventBasePtr base(event_base_new());
    const auto ignore = [](int, short, void*) {};
    WatchedSocket socket(base.get(), std::move(writer), ignore, ignore, nullptr);
    Output output;
    output.append(protocol::asBytes(std::string(64 << 20, 'v')));
    size_t most = 0;
    while (!output.empty()) {  // the system enlarges the buffer of a fast connection
        const auto sent = socket.send(output);
        if (!sent) {
            ADD_FAILURE();
            break;
        }
        most = std::max(most, *sent);
        output.consume(*sent);
    }
    EXPECT_LE(most, size_t{1} << 20) << "others wait for that long";
    socket.endSending();
    reading.join();
}

/// Throws in the function that `where` names.
class Failing final : public Conversation {
  public:
    explicit Failing(Opcode where) : where_(where) {}
    bool produce(Output& out, size_t) override {
        out.append(protocol::asBytes("half a message"));
        failAt(Opcode::kNoop);
        out.clear();
        return false;
    }
    bool onAnswer(const protocol::FrameView&) override { return true; }
    bool tick(std::chrono::steady_clock::time_point, const Delivery&) override {
        failAt(Opcode::kVersion);
        return true;
    }

  private:
    void failAt(Opcode here) const {
        if (where_ == here) {
            throw std::bad_alloc();
        }
    }
    const Opcode where_;
};

TEST_F(ConnectionTest, AnErrorEndsOnlyTheConnectionWhoseTurnItIs) {
    start({}, nullptr, 1, [this](ServerContext&) {
        server_->commands().add(
                {Opcode::kNoop, Opcode::kVersion},
                {[](CommandContext& context, const protocol::FrameView& request) {
                     context.session.converse(std::make_unique<Failing>(request.header.opcode));
                     return After::Continue;
                 },
                 Needs::Nothing});
    });
    auto other = connect();
    for (const auto where : {Opcode::kNoop, Opcode::kVersion}) {
        auto failing = connect();
        failing.send(Frame{.opcode = where}.bytes());
        EXPECT_TRUE(failing.atEnd());
        other.send(setBytes("k", "v"));
        const auto answers = other.receive(1);
        ASSERT_EQ(answers.size(), 1U) << "nothing of the failing one's is sent to others";
        EXPECT_EQ(answers[0].status, Status::kSuccess);
    }
    EXPECT_EQ(context().connections.load(), 1U);
}

}  // namespace
}  // namespace kv::server
