use std::sync::Arc;
use std::time::Duration;

use rethread_core::{
    Agent, Assistant, Json, Message, Model, ModelError, ModelErrorKind, ModelEvent, PromptOptions,
    ResumeKind, StopReason, Tool,
};
use rethread_providers::{
    Anthropic, Gemini, HttpModel, OpenAiChat, OpenAiResponses, Script, Timeouts,
};
use rethread_testserver::{ChatServer, Fault, Reply, Rules, Script as Play, Server};

use crate::collect;

const LONG: &str = "A rather long answer, so that there is something to cut.";
const KEY: &str = "sk-secret-0123456789";

fn server(replies: impl IntoIterator<Item = Reply>) -> Server {
    Server::start(Play::new(replies)).unwrap()
}

/// One model of each API, all at one server.
fn models(server: &Server) -> [HttpModel; 4] {
    let url = server.url();
    let v1 = format!("{url}/v1");
    [
        Anthropic::with_key("claude-m", KEY).base_url(&url),
        OpenAiChat::with_key("chat-m", KEY)
            .base_url(&v1)
            .provider("here"),
        OpenAiResponses::with_key("responses-m", KEY).base_url(&v1),
        Gemini::with_key("gemini-3-m", KEY).base_url(&url),
    ]
}

fn tools() -> Vec<Arc<dyn Tool>> {
    let script = r#"{"replies":[],"tools":{"look":{"result":"saw {at}"},"go":{"fail":"the way is blocked"}}}"#;
    Script::from_json(script).unwrap().tools()
}

async fn ask(model: &HttpModel) -> Result<Assistant, ModelError> {
    let mut prompt = model.prompt(&PromptOptions::default());
    prompt.push(&Message::user("hello"));
    let (mut events, error) = collect(prompt.send()).await;
    match (events.pop(), error) {
        (Some(ModelEvent::Done(response)), None) => Ok(*response),
        (None, Some(error)) => Err(error),
        other => panic!("neither a response nor an error: {other:?}"),
    }
}

fn of_text(response: &Assistant) -> String {
    response.content.to_text()
}

#[tokio::test]
async fn a_text_comes_and_its_key_stays_here() {
    let server = server((0..4).map(|_| Reply::text("Good day to you.").write_size(3)));
    for model in models(&server) {
        let response = ask(&model).await.unwrap();
        assert_eq!(of_text(&response), "Good day to you.");
        assert_eq!(response.origin.as_ref(), Some(model.origin()));
        assert!(!format!("{model:?}").contains("secret"));
    }
    assert_eq!(server.problems(), Vec::<String>::new());
    for request in server.requests() {
        let length = request
            .headers
            .iter()
            .find(|(name, _)| name == "content-length");
        assert_eq!(length.unwrap().1, request.body.len().to_string());
    }
}

#[tokio::test]
async fn reasoning_and_calls_come_back_as_they_came() {
    for place in 0..4 {
        let server = server([
            Reply::text("Let me look.")
                .reasoning("Where is it?")
                .call("call_1", "look", r#"{"at": "1e2"}"#)
                .call("call_2", "go", "{}"),
            Reply::new()
                .reasoning("Again.")
                .call("call_1", "look", r#"{"at":"\u00e9\n"}"#),
            Reply::text("It is there.").reasoning("So."),
            Reply::text("Yes."),
        ]);
        let model = models(&server)[place].clone();
        let agent = Agent::builder()
            .model(model)
            .tools(tools())
            .instructions("Be brief.");
        let session = agent.build().unwrap().session("s");
        assert_eq!(session.run("Where?").await.unwrap().text(), "It is there.");
        assert_eq!(session.run("Sure?").await.unwrap().text(), "Yes.");
        assert_eq!(server.problems(), Vec::<String>::new());
        let requests = server.requests();
        let last = String::from_utf8(requests.last().unwrap().body.clone()).unwrap();
        let history = session.history().await.unwrap();
        let responses = history.messages().filter_map(Message::as_assistant);
        // The repeated id has to change where it stands twice in a request.
        let responses: Vec<&Assistant> = responses.collect();
        for item in responses
            .iter()
            .rev()
            .skip(1)
            .flat_map(|response| &response.native)
        {
            let renamed = item.get().contains("call_1");
            assert!(
                renamed || last.contains(item.get()),
                "{item:?} is not in {last}"
            );
        }
        assert_eq!(requests.len(), 4);
    }
}

#[tokio::test]
async fn a_limit_says_how_long_to_wait() {
    let server = server((0..4).map(|_| Reply::fail(Fault::rate_limited(7))));
    for model in models(&server) {
        let error = ask(&model).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::RateLimited);
        assert_eq!(error.status, Some(429));
        assert!(error.is_retryable());
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    }
}

#[tokio::test]
async fn an_error_never_tells_the_key() {
    let body = format!(r#"{{"error":{{"message":"bad key {KEY}","type":"x"}}}}"#);
    let fault = || Fault::status(401).body(body.clone());
    let server = server((0..4).map(|_| Reply::fail(fault())));
    for model in models(&server) {
        let error = ask(&model).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Auth);
        assert!(!format!("{error} {error:?}").contains(KEY), "{error:?}");
    }
}

#[tokio::test]
async fn what_breaks_off_is_kept_and_what_never_began_is_an_error() {
    let text = LONG;
    for place in 0..4 {
        let server = server([
            Reply::text(text)
                .fault(Fault::CutAfterEvents(6))
                .fault(Fault::EndAfterEvents(6)),
            Reply::fail(Fault::Drop),
            Reply::fail(Fault::Empty200),
            Reply::fail(Fault::Html200),
        ]);
        let model = &models(&server)[place];
        for _ in 0..2 {
            let response = ask(model).await.unwrap();
            assert_eq!(response.stop_reason(), StopReason::Interrupted);
            let came = of_text(&response);
            assert!(
                !came.is_empty() && text.starts_with(&came) && came != text,
                "{came}"
            );
        }
        assert_eq!(of_text(&ask(model).await.unwrap()), text);
        for _ in 0..2 {
            let error = ask(model).await.unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::Interrupted, "{error}");
            assert!(error.is_retryable());
        }
        let error = ask(model).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::NotAnApi, "{error}");
        assert!(!error.is_retryable());
    }
}

#[tokio::test]
async fn silence_is_an_interruption() {
    let short = Duration::from_millis(150);
    let timeouts = Timeouts {
        connect: short,
        first_byte: short,
        idle: short,
    };
    for place in 0..4 {
        let server = server([Reply::text(LONG).fault(Fault::StallAfterEvents(6))]);
        let model = models(&server)[place].clone().timeouts(timeouts);
        let response = ask(&model).await.unwrap();
        assert_eq!(response.stop_reason(), StopReason::Interrupted);
        assert!(!of_text(&response).is_empty());
        server.push(Reply::fail(Fault::Hang));
        let _ = ask(&model).await; // the reply that stalled, now whole
        let error = ask(&model).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Interrupted);
    }
}

#[tokio::test]
async fn a_service_that_is_not_there_is_named() {
    let gone = server([]).url();
    let model = OpenAiChat::llama_cpp(&gone);
    assert_eq!(model.origin().model, gone);
    let error = ask(&model).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Interrupted);
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
    let error = ask(&OpenAiChat::llama_cpp("no address")).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::InvalidRequest);
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn a_session_resumes_after_a_cut() {
    for place in 0..4 {
        let cut = Reply::text(LONG).fault(Fault::CutAfterEvents(7));
        let server = server([
            Reply::new()
                .reasoning("First.")
                .call("call_1", "look", r#"{"at":"a"}"#),
            cut,
        ]);
        let agent = Agent::builder()
            .model(models(&server)[place].clone())
            .tools(tools());
        let session = agent.build().unwrap().session("s");
        let stopped = session.run("Where?").await.unwrap();
        assert_eq!(stopped.stop().unwrap().reason, StopReason::Interrupted);
        let point = session.resume_point().await.unwrap().unwrap();
        assert_eq!(point.kind, ResumeKind::RetryResponse);
        assert_eq!(session.resume().await.unwrap().text(), LONG);
        assert_eq!(server.problems(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_run_waits_and_tries_again() {
    for place in 0..4 {
        let server = server([Reply::text("There.")
            .fault(Fault::rate_limited(0))
            .fault(Fault::Drop)]);
        let agent = Agent::builder().model(models(&server)[place].clone());
        let session = agent.build().unwrap().session("s");
        assert_eq!(session.run("Where?").await.unwrap().text(), "There.");
        assert_eq!(server.requests().len(), 3);
    }
}

#[tokio::test]
async fn a_session_moves_from_service_to_service() {
    let replies = || {
        [
            Reply::text("Hm.")
                .reasoning("Where?")
                .call("call|1", "look", r#"{"at":"a"}"#),
            Reply::text("There.").reasoning("So."),
        ]
    };
    let servers: Vec<Server> = (0..4).map(|_| server(replies())).collect();
    let agent = |place: usize| {
        let model = models(&servers[place])[place].clone();
        Agent::builder().model(model).tools(tools())
    };
    let first = agent(0).build().unwrap();
    let session = first.session("s");
    for place in [0, 3, 1, 2] {
        let model: Arc<dyn Model> = Arc::new(models(&servers[place])[place].clone());
        let reply = session.run("Where?").model(model).await.unwrap();
        assert_eq!(reply.text(), "There.");
        assert_eq!(servers[place].problems(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn each_server_gets_its_own_dialect() {
    let dialects = [
        (ChatServer::DeepSeek, r#"{"family":"deepseek"}"#),
        (ChatServer::Kimi, r#"{"family":"kimi"}"#),
        (ChatServer::Mistral, r#"{"family":"mistral"}"#),
        (ChatServer::OpenAi, r#"{"family":"openai"}"#),
        (ChatServer::OpenRouter, "{}"),
        (ChatServer::LlamaCpp, "{}"),
        (ChatServer::GeminiCompat, "{}"),
    ];
    for (kind, switches) in dialects {
        let mistral = kind == ChatServer::Mistral;
        let id = |n: usize| {
            if mistral {
                format!("abcdefgh{n}")
            } else {
                format!("call_{n}")
            }
        };
        let replies = [
            Reply::text("Hm.")
                .reasoning("Where?")
                .call(id(1), "look", r#"{"at":"a"}"#),
            Reply::new()
                .reasoning("Again.")
                .call(id(2), "look", r#"{"at":"b"}"#),
            Reply::text("There."),
            Reply::text("Yes."),
        ];
        let server = Server::start(Play::new(replies).rules(Rules::chat(kind))).unwrap();
        let model = OpenAiChat::with_key("m", KEY)
            .base_url(format!("{}/v1", server.url()))
            .target(Json::parse(switches).unwrap())
            .unwrap();
        let session = Agent::builder()
            .model(model)
            .tools(tools())
            .build()
            .unwrap()
            .session("s");
        session.run("Where?").await.unwrap();
        session.run("Sure?").await.unwrap();
        assert_eq!(server.problems(), Vec::<String>::new(), "{kind:?}");
    }
}

#[test]
fn a_switch_nobody_knows_is_refused() {
    let model = OpenAiChat::ollama("m");
    let error = model
        .target(Json::parse(r#"{"colour":1}"#).unwrap())
        .unwrap_err();
    assert!(error.to_string().contains("colour"), "{error}");
}
