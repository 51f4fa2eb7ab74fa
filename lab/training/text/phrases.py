"""German phrases with their English translations: what the task `translate` is learnt from.

A slot stands for a pair of entries of `PAIRS`, the same in both languages. A phrase without slots
is one sentence; the split of sentences holds for what the slots make.
"""

_NAMES = ("Anna", "Peter", "Emma", "Jonas", "Sophie", "Lukas", "Clara", "Emil")
PAIRS: dict[str, list[tuple[str, str]]] = {
    "city": [
        ("Berlin", "Berlin"),
        ("Wien", "Vienna"),
        ("Köln", "Cologne"),
        ("München", "Munich"),
        ("Zürich", "Zurich"),
        ("Hamburg", "Hamburg"),
    ],
    "name": [
        (name, name)
        for name in [
            "Anna",
            "Peter",
            "Emma",
            "Jonas",
            "Sophie",
            "Lukas",
            "Clara",
            "Emil",
        ]
    ],
    "day": [
        ("Montag", "Monday"),
        ("Dienstag", "Tuesday"),
        ("Mittwoch", "Wednesday"),
        ("Donnerstag", "Thursday"),
        ("Freitag", "Friday"),
        ("Samstag", "Saturday"),
        ("Sonntag", "Sunday"),
    ],
    "hour": [
        ("drei", "three"),
        ("vier", "four"),
        ("fünf", "five"),
        ("sechs", "six"),
        ("sieben", "seven"),
        ("acht", "eight"),
        ("neun", "nine"),
        ("zehn", "ten"),
        ("elf", "eleven"),
        ("zwölf", "twelve"),
    ],
    "count": [
        ("zwei", "two"),
        ("drei", "three"),
        ("fünf", "five"),
        ("zehn", "ten"),
        ("zwanzig", "twenty"),
        ("dreißig", "thirty"),
    ],
    "order": [
        ("einen Kaffee", "a coffee"),
        ("einen Tee", "a tea"),
        ("ein Bier", "a beer"),
        ("ein Glas Wasser", "a glass of water"),
        ("eine Suppe", "a soup"),
        ("einen Salat", "a salad"),
    ],
    "place": [
        ("der Bahnhof", "the station"),
        ("die Apotheke", "the pharmacy"),
        ("das Museum", "the museum"),
        ("das Hotel", "the hotel"),
        ("die Kirche", "the church"),
        ("der Markt", "the market"),
    ],
    "thing": [
        ("der Schlüssel", "the key"),
        ("die Tür", "the door"),
        ("das Buch", "the book"),
        ("der Koffer", "the suitcase"),
        ("die Lampe", "the lamp"),
        ("das Auto", "the car"),
    ],
    "lost": [
        ("meinen Schlüssel", "my key"),
        ("meine Tasche", "my bag"),
        ("mein Telefon", "my phone"),
        ("meinen Pass", "my passport"),
        ("meine Brille", "my glasses"),
    ],
    "adj": [
        ("groß", "big"),
        ("klein", "small"),
        ("schön", "beautiful"),
        ("kaputt", "broken"),
        ("teuer", "expensive"),
        ("alt", "old"),
        ("neu", "new"),
    ],
    "family": [
        ("Meine Mutter", "My mother"),
        ("Mein Vater", "My father"),
        ("Mein Bruder", "My brother"),
        ("Meine Schwester", "My sister"),
    ],
    "room": [
        ("in der Küche", "in the kitchen"),
        ("im Bad", "in the bathroom"),
        ("im Garten", "in the garden"),
        ("im Büro", "in the office"),
    ],
}

_TABLE = """
Guten Morgen.=Good morning.
Guten Morgen, {name}.=Good morning, {name}.
Guten Tag.=Good day.
Guten Abend.=Good evening.
Guten Abend, {name}.=Good evening, {name}.
Gute Nacht.=Good night.
Gute Nacht, {name}.=Good night, {name}.
Hallo, {name}, wie geht es dir?=Hello, {name}, how are you?
Wie geht es Ihnen?=How are you?
Mir geht es gut, danke.=I am fine, thank you.
Auf Wiedersehen.=Goodbye.
Bis morgen.=See you tomorrow.
Bis später.=See you later.
Bis {day}, {name}.=See you on {day}, {name}.
Vielen Dank.=Thank you very much.
Vielen Dank für Ihre Hilfe.=Thank you for your help.
Danke, {name}.=Thank you, {name}.
Gern geschehen.=You are welcome.
Bitte schön.=Here you are.
Entschuldigung.=Excuse me.
Es tut mir leid.=I am sorry.
Es tut mir leid, {name}.=I am sorry, {name}.
Kein Problem.=No problem.
Das macht nichts.=It does not matter.
Ja, bitte.=Yes, please.
Nein, danke.=No, thank you.
Ich weiß es nicht.=I do not know.
Ich verstehe nicht.=I do not understand.
Können Sie das wiederholen?=Can you repeat that?
Sprechen Sie bitte langsamer.=Please speak more slowly.
Sprechen Sie Englisch?=Do you speak English?
Ich spreche ein wenig Deutsch.=I speak a little German.
Wie heißen Sie?=What is your name?
Ich heiße {name}.=My name is {name}.
Das ist {name}.=This is {name}.
Woher kommen Sie?=Where are you from?
Ich komme aus {city}.=I come from {city}.
Ich wohne in {city}.=I live in {city}.
{name} wohnt in {city}.={name} lives in {city}.
{family} arbeitet in {city}.={family} works in {city}.
{family} ist krank.={family} is ill.
{family} heißt {name}.={family} is called {name}.
Wie alt bist du?=How old are you?
Ich bin {count} Jahre alt.=I am {count} years old.
Ich habe {count} Kinder.=I have {count} children.
Freut mich, Sie kennenzulernen.=Nice to meet you.
Willkommen in {city}.=Welcome to {city}.
Herzlichen Glückwunsch.=Congratulations.
Alles Gute zum Geburtstag, {name}.=Happy birthday, {name}.
Viel Glück.=Good luck.
Gute Besserung.=Get well soon.
Guten Appetit.=Enjoy your meal.
Zum Wohl.=Cheers.
Gute Reise.=Have a good trip.
Schönes Wochenende.=Have a nice weekend.
Wo ist {place}?=Where is {place}?
Wo ist {place}, bitte?=Where is {place}, please?
Ist {place} weit von hier?=Is {place} far from here?
{place} ist geschlossen.={place} is closed.
{place} ist sehr {adj}.={place} is very {adj}.
{place} öffnet um {hour} Uhr.={place} opens at {hour} o'clock.
{place} schließt um {hour} Uhr.={place} closes at {hour} o'clock.
{thing} ist {adj}.={thing} is {adj}.
{thing} ist nicht {adj}.={thing} is not {adj}.
Wo ist {thing}?=Where is {thing}?
{thing} ist {room}.={thing} is {room}.
{name} ist {room}.={name} is {room}.
{family} ist {room}.={family} is {room}.
Ich habe {lost} verloren.=I have lost {lost}.
Haben Sie {lost} gesehen?=Have you seen {lost}?
Ich suche {lost}.=I am looking for {lost}.
Jemand hat {lost} gestohlen.=Someone has stolen {lost}.
Ich möchte {order}, bitte.=I would like {order}, please.
Ich hätte gern {order}.=I would like to have {order}.
Möchten Sie {order}?=Would you like {order}?
{name} bestellt {order}.={name} orders {order}.
Die Rechnung, bitte.=The bill, please.
Wie viel kostet das?=How much does that cost?
Das kostet {count} Euro.=That costs {count} euros.
Das ist zu teuer.=That is too expensive.
Kann ich mit Karte zahlen?=Can I pay by card?
Haben Sie einen Tisch für {count} Personen?=Do you have a table for {count} people?
Ich habe Hunger.=I am hungry.
Ich habe Durst.=I am thirsty.
Das Essen schmeckt sehr gut.=The food tastes very good.
Ich esse kein Fleisch.=I do not eat meat.
Haben Sie ein freies Zimmer?=Do you have a free room?
Wir bleiben {count} Nächte.=We are staying {count} nights.
Wann gibt es Frühstück?=When is breakfast?
Das Frühstück ist um {hour} Uhr.=Breakfast is at {hour} o'clock.
Wann fährt der Zug nach {city}?=When does the train to {city} leave?
Der Zug nach {city} hat Verspätung.=The train to {city} is late.
Der Zug nach {city} fährt um {hour} Uhr.=The train to {city} leaves at {hour} o'clock.
Eine Fahrkarte nach {city}, bitte.=A ticket to {city}, please.
Ist dieser Platz frei?=Is this seat free?
Wir fahren am {day} nach {city}.=We are going to {city} on {day}.
Am {day} fliege ich nach {city}.=On {day} I fly to {city}.
Gehen Sie geradeaus.=Go straight ahead.
Biegen Sie links ab.=Turn left.
Biegen Sie rechts ab.=Turn right.
Halten Sie hier an.=Stop here.
Rufen Sie ein Taxi.=Call a taxi.
Rufen Sie die Polizei.=Call the police.
Ich brauche einen Arzt.=I need a doctor.
Ich brauche Hilfe.=I need help.
Wo tut es weh?=Where does it hurt?
Mein Kopf tut weh.=My head hurts.
Wie spät ist es?=What time is it?
Es ist {hour} Uhr.=It is {hour} o'clock.
Es ist halb zehn.=It is half past nine.
Wir treffen uns um {hour} Uhr.=We meet at {hour} o'clock.
Wir sehen uns am {day}.=We will see each other on {day}.
Heute ist {day}.=Today is {day}.
Morgen ist {day}.=Tomorrow is {day}.
Gestern war {day}.=Yesterday was {day}.
Was machst du am {day}?=What are you doing on {day}?
Der Kurs beginnt am {day} um {hour} Uhr.=The course starts on {day} at {hour} o'clock.
In {count} Minuten bin ich da.=I will be there in {count} minutes.
Warten Sie bitte {count} Minuten.=Please wait {count} minutes.
Das dauert {count} Tage.=That takes {count} days.
Das Wetter ist schön.=The weather is nice.
In {city} regnet es.=It is raining in {city}.
In {city} scheint die Sonne.=The sun is shining in {city}.
Am {day} schneit es.=It is snowing on {day}.
Heute ist es kalt.=It is cold today.
Mir ist warm.=I am warm.
Ich bin müde.=I am tired.
Ich bin glücklich.=I am happy.
{name} ist müde.={name} is tired.
{name} ist traurig.={name} is sad.
Hast du Zeit?=Do you have time?
Was ist das?=What is that?
Was ist passiert?=What happened?
Wer ist da?=Who is there?
Warum nicht?=Why not?
Komm herein.=Come in.
Setzen Sie sich.=Sit down.
Komm schnell, {name}.=Come quickly, {name}.
Kommst du am {day}?=Are you coming on {day}?
Ruf mich am {day} an.=Call me on {day}.
Hilf mir, {name}.=Help me, {name}.
Pass auf.=Watch out.
Beeil dich, {name}.=Hurry up, {name}.
Mach das Licht an.=Turn on the light.
Mach das Licht {room} an.=Turn on the light {room}.
Mach das Licht {room} aus.=Turn off the light {room}.
Mach das Fenster {room} zu.=Close the window {room}.
Stell den Wecker auf {hour} Uhr.=Set the alarm for {hour} o'clock.
Spiel Musik {room}.=Play music {room}.
Ich liebe dich.=I love you.
Ich vermisse dich, {name}.=I miss you, {name}.
Du hast recht.=You are right.
Das stimmt nicht.=That is not true.
Das ist eine gute Idee.=That is a good idea.
Ich bin einverstanden.=I agree.
Natürlich.=Of course.
Vielleicht morgen.=Maybe tomorrow.
Noch einmal, bitte.=Once more, please.
Ich lese ein Buch.=I am reading a book.
Die Kinder spielen {room}.=The children are playing {room}.
Der Hund schläft {room}.=The dog is sleeping {room}.
Die Katze sitzt {room}.=The cat is sitting {room}.
Wir haben gewonnen.=We have won.
Ich lerne seit {count} Jahren Deutsch.=I have been learning German for {count} years.
Alles ist in Ordnung.=Everything is all right.
Frohe Weihnachten.=Merry Christmas.
Frohes neues Jahr.=Happy New Year.
"""

TABLE: list[tuple[str, str]] = [
    (german, english)
    for german, english in (line.split("=") for line in _TABLE.strip().splitlines())
]
