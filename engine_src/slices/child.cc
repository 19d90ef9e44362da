#include "slices/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace kv::slices {

namespace {

constexpr size_t kMaxLine = size_t{64} << 20;
constexpr off_t kStderrKept = 8192;  ///< bytes at each end

[[noreturn]] void throwErrno(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

sigset_t endSignals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

struct Pipe {
    Fd read;
    Fd write;

    Pipe() {
        std::array<int, 2> ends{};
        if (pipe2(ends.data(), O_CLOEXEC) != 0) {
            throwErrno("pipe");
        }
        read = Fd(ends[0]);
        write = Fd(ends[1]);
    }
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
    std::vector<char*> all;
    all.reserve(strings.size() + 1);
    for (const std::string& string : strings) {
        all.push_back(const_cast<char*>(string.c_str()));
    }
    all.push_back(nullptr);
    return all;
}

cpu_set_t cpuSet(const std::vector<size_t>& cpus) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const size_t cpu : cpus) {
        CPU_SET(cpu, &set);
    }
    return set;
}

/// The work of the new process before it becomes the program. Only calls that are safe after fork;
/// a step that fails ends the process and sends {step, errno} through `complain`.
struct Launch {
    std::vector<char*> argv;
    std::vector<char*> env;
    const cpu_set_t* cpus;
    int in;
    int out;
    int err;
    int complain;
    pid_t parent;

    [[noreturn]] void operator()() const {
        sigset_t none;
        sigemptyset(&none);
        const auto step = [this](int number, bool done) {
            if (!done) {
                const std::array<int, 2> complaint{number, errno};
                const auto written = ::write(complain, complaint.data(), sizeof complaint);
                _exit(written < 0 ? 126 : 127);
            }
        };
        step(0, setpgid(0, 0) == 0);
        step(1, prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        step(1, getppid() == parent);  // the parent may have died before the request was made
        step(2, cpus == nullptr || sched_setaffinity(0, sizeof *cpus, cpus) == 0);
        step(3, dup2(in, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
                        dup2(err, STDERR_FILENO) >= 0);
        step(4, std::signal(SIGPIPE, SIG_DFL) != SIG_ERR &&
                        (errno = pthread_sigmask(SIG_SETMASK, &none, nullptr)) == 0);
        execve(argv.front(), argv.data(), env.data());
        step(5, false);
        _exit(127);
    }
};
constexpr std::array kSteps{"make a process group", "die with its parent", "be pinned to its CPUs",
                            "have its pipes",       "have its signals",    "be executed"};

std::string describe(const siginfo_t& end) {
    return end.si_code == CLD_EXITED ? "ended with status " + std::to_string(end.si_status)
                                     : "was killed by signal " + std::to_string(end.si_status);
}

std::string readAt(int fd, off_t from, size_t bytes) {
    std::string text(bytes, '\0');
    const ssize_t got = pread(fd, text.data(), bytes, from);
    text.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return text;
}

}  // namespace

SignalWatch::SignalWatch() {
    const sigset_t set = endSignals();
    if (errno = pthread_sigmask(SIG_BLOCK, &set, &before_); errno != 0) {
        throwErrno("pthread_sigmask");
    }
    // A write to a variant that is gone fails with EPIPE.
    std::signal(SIGPIPE, SIG_IGN);
    fd_ = Fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!fd_) {
        throwErrno("signalfd");
    }
}

SignalWatch::~SignalWatch() {
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void SignalWatch::check() const {
    signalfd_siginfo info{};
    if (read(fd_.get(), &info, sizeof info) == sizeof info) {
        throw Interrupted(static_cast<int>(info.ssi_signo));
    }
}

Child::Child(const VariantPlan& plan, std::chrono::nanoseconds timeout, const SignalWatch& signals)
    : name_(plan.name),
      timeout_(timeout),
      signals_(signals),
      stderr_(memfd_create("stderr", MFD_CLOEXEC)) {
    if (!stderr_) {
        throwErrno("memfd_create");
    }
    Pipe in;
    Pipe out;
    Pipe complaints;
    const cpu_set_t cpus = cpuSet(plan.cpus.value_or(std::vector<size_t>{}));
    const Launch launch{
            pointers(plan.argv), pointers(plan.env), plan.cpus ? &cpus : nullptr, in.read.get(),
            out.write.get(),     stderr_.get(),      complaints.write.get(),      getpid()};
    pid_ = fork();
    if (pid_ < 0) {
        throwErrno("fork");
    }
    if (pid_ == 0) {
        launch();
    }
    in_ = std::move(in.write);
    out_ = std::move(out.read);
    complaints.write = Fd();
    std::array<int, 2> complaint{};
    if (read(complaints.read.get(), complaint.data(), sizeof complaint) == sizeof complaint) {
        const auto step = kSteps.at(static_cast<size_t>(complaint[0]));
        int status = 0;
        waitpid(pid_, &status, 0);
        reaped_ = true;
        fail(plan.argv.front() + " could not " + step + ": " +
             std::generic_category().message(complaint[1]));
    }
}

Child::~Child() {
    if (!reaped_ && pid_ > 0) {
        kill(-pid_, SIGKILL);
        int status = 0;
        while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
        }
    }
}

void Child::send(const std::string& line) {
    const std::string text = line + "\n";
    for (size_t sent = 0; sent < text.size();) {
        // A line fits into the pipe's buffer, which the program empties, so this does not block for
        // long.
        const ssize_t wrote = write(in_.get(), text.data() + sent, text.size() - sent);
        if (wrote < 0 && errno == EPIPE) {
            failEnded();
        }
        if (wrote < 0 && errno != EINTR) {
            throwErrno("write to a variant");
        }
        sent += wrote > 0 ? static_cast<size_t>(wrote) : 0;
    }
}

std::string Child::receive() {
    std::array<char, 1 << 16> buffer;
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    for (size_t searched = 0;;) {
        const size_t end = received_.find('\n', searched);
        if (end != std::string::npos) {
            std::string line = received_.substr(0, end);
            received_.erase(0, end + 1);
            return line;
        }
        if (received_.size() > kMaxLine) {
            fail("wrote a line without an end");
        }
        searched = received_.size();
        std::array<pollfd, 2> waitFor{pollfd{out_.get(), POLLIN, 0},
                                      pollfd{signals_.fd(), POLLIN, 0}};
        const auto left = std::max<std::chrono::nanoseconds>(
                std::chrono::nanoseconds(0), deadline - std::chrono::steady_clock::now());
        const timespec limit{.tv_sec = left.count() / 1'000'000'000,
                             .tv_nsec = left.count() % 1'000'000'000};
        const int ready = ppoll(waitFor.data(), waitFor.size(), &limit, nullptr);
        if (ready < 0 && errno != EINTR) {
            throwErrno("ppoll");
        }
        signals_.check();
        if (ready == 0) {
            fail("did not answer for " +
                 std::to_string(std::chrono::duration<double>(timeout_).count()) + " s");
        }
        if (ready < 0 || waitFor[0].revents == 0) {
            continue;
        }
        const ssize_t got = read(out_.get(), buffer.data(), buffer.size());
        if (got == 0) {
            failEnded();
        }
        if (got < 0 && errno != EINTR) {
            throwErrno("read from a variant");
        }
        received_.append(buffer.data(), got > 0 ? static_cast<size_t>(got) : 0);
    }
}

void Child::freeze() {
    kill(pid_, SIGSTOP);  // it has not been waited for, so the pid is still ours
    siginfo_t change{};
    while (waitid(P_PID, static_cast<id_t>(pid_), &change, WSTOPPED | WEXITED | WNOWAIT) != 0) {
        if (errno != EINTR) {
            throwErrno("waitid");
        }
    }
    if (change.si_code != CLD_STOPPED) {
        failEnded();
    }
    // Consumes the report of the stop, so that the next freeze waits for its own.
    waitid(P_PID, static_cast<id_t>(pid_), &change, WSTOPPED | WNOHANG);
}

void Child::thaw() {
    kill(pid_, SIGCONT);
}

void Child::expectEnd() {
    in_ = Fd();
    std::array<char, 256> rest{};
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    while (std::chrono::steady_clock::now() < deadline) {
        std::array<pollfd, 2> waitFor{pollfd{out_.get(), POLLIN, 0},
                                      pollfd{signals_.fd(), POLLIN, 0}};
        poll(waitFor.data(), waitFor.size(), 100);
        signals_.check();
        if (waitFor[0].revents == 0) {
            continue;
        }
        const ssize_t got = read(out_.get(), rest.data(), rest.size());
        if (got > 0) {
            fail("sent more than was requested");
        }
        if (got == 0) {
            break;
        }
    }
    for (; std::chrono::steady_clock::now() < deadline; signals_.check()) {
        if (const auto end = reapIfEnded()) {
            if (end->si_code != CLD_EXITED || end->si_status != 0) {
                fail(describe(*end));
            }
            return;
        }
        poll(nullptr, 0, 1);
    }
    fail("did not end after quit");
}

std::vector<size_t> Child::affinity() const {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(pid_, sizeof set, &set) != 0) {
        throwErrno("sched_getaffinity");
    }
    std::vector<size_t> cpus;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (CPU_ISSET(cpu, &set)) {
            cpus.push_back(cpu);
        }
    }
    return cpus;
}

std::string Child::stderrText() const {
    // Not lseek, because the program shares the offset.
    struct stat file {};
    const off_t size = fstat(stderr_.get(), &file) == 0 ? file.st_size : 0;
    if (size <= 2 * kStderrKept) {
        return readAt(stderr_.get(), 0, static_cast<size_t>(size));
    }
    return readAt(stderr_.get(), 0, kStderrKept) + "\n[" + std::to_string(size - 2 * kStderrKept) +
           " bytes left out]\n" + readAt(stderr_.get(), size - kStderrKept, kStderrKept);
}

void Child::fail(const std::string& what) const {
    throw VariantError(name_, what);
}

std::optional<siginfo_t> Child::reapIfEnded() {
    siginfo_t end{};
    const auto id = static_cast<id_t>(pid_);
    if (waitid(P_PID, id, &end, WEXITED | WNOHANG | WNOWAIT) != 0 || end.si_pid != pid_) {
        return std::nullopt;
    }
    // Processes that it started in its group must not survive; the group is ours until the program
    // is reaped.
    kill(-pid_, SIGKILL);
    waitid(P_PID, id, &end, WEXITED);
    reaped_ = true;
    return end;
}

void Child::failEnded() {
    // The pipe is closed: the program has ended, or it has closed its stdout and will not be heard
    // again.
    for (int tries = 0; tries < 1000; ++tries) {
        if (const auto end = reapIfEnded()) {
            fail(describe(*end));
        }
        poll(nullptr, 0, 1);
    }
    fail("closed its output");
}

}  // namespace kv::slices
